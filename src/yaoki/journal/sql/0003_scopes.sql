-- 0003: breakers and cooldowns by scope.

-- Scopes that are not well: a row goes when there is nothing left to remember. records.Circuit has the meaning.
create table scope (
    name           text    primary key,
    failures       integer not null,
    opened_ms      integer not null,
    until_ms       integer not null,
    cool_ms        integer not null,
    reason         text    not null,
    probe_worker   integer not null,               -- worker.id; its place is lost with its lock
    probe_run      integer not null,
    probe_step     text    not null,
    probe_until_ms integer not null,
    changed_ms     integer not null
) strict;

-- Raised by every change of a scope or a brake, in its transaction: who has seen this number has seen them all.
create table scoping (
    id         integer primary key check (id = 1),
    generation integer not null
) strict;
insert into scoping values (1, 0);

create trigger scope_added after insert on scope begin update scoping set generation = generation + 1; end;
create trigger scope_changed after update on scope begin update scoping set generation = generation + 1; end;
create trigger scope_gone after delete on scope begin update scoping set generation = generation + 1; end;
create trigger brake_on after insert on brake begin update scoping set generation = generation + 1; end;
create trigger brake_off after delete on brake begin update scoping set generation = generation + 1; end;
