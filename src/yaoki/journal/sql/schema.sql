-- The schema as it stands after all migrations, to read in one place. A test holds the two equal.

-- "YAOK": the file is ours. A database that carries another mark, or none, is refused.
pragma application_id = 1497452363;

create table run (
    id         integer primary key autoincrement,  -- never reused: a late record cannot meet a new run
    name       text    not null unique,             -- the run id people type
    loop       text    not null,
    state      text    not null,                    -- records.State
    wake_ms    integer not null default 0,          -- sleeping until; 0 is no time
    epoch      integer not null default 0,          -- raised by each claim; every record is fenced by it
    owner      integer not null default 0,          -- worker.id while driven; 0 is nobody
    deaths     integer not null default 0,          -- owners that died while they drove it
    note       text    not null default '',         -- one line for people
    waits_for  text    not null default '',
    file       text    not null default '',
    grp        text    not null default '',
    created_ms integer not null,
    started_ms integer not null default 0,
    ended_ms   integer not null default 0,
    changed_ms integer not null,                    -- when the state last changed
    -- Last, since a column behind a large one is read through all of its pages.
    input      blob    not null,
    value      blob                                 -- what a final run returned
    -- What it had cost when it was last left, in billionths of a dollar.
    , cost_nusd integer not null default 0) strict;

-- Due runs of a loop are found in O(due). The literal must stand in the query too, or the index is not used.
create index run_wake on run (loop, wake_ms) where wake_ms > 0;
-- Pending runs of a loop in the order they came, and counts without reading a row.
create index run_state on run (state, loop);
create index run_owner on run (owner) where owner <> 0;
create index run_ended on run (state, ended_ms) where ended_ms > 0;
create index run_grp on run (grp) where grp <> '';
-- What runs cost is added up without reading a row.
create index run_cost on run (state, loop, cost_nusd) where cost_nusd > 0;

-- The packed rowid (run << 32 | seq) needs no second index and keeps a run's records side by side.
-- seq below 2^31 is the driver's; from 2^31 on it is for posts from outside (answers, signals, cancel).
create table journal (
    id   integer primary key,
    kind integer not null,                          -- records.KINDS
    key  text    not null,
    body blob    not null                           -- the record as JSON
) strict;

-- A worker lives as long as its lock byte in `<store>-lock` is held; the row is for people.
create table worker (
    id         integer primary key autoincrement,  -- its lock byte; never reused
    pid        integer not null,
    host       text    not null,
    mark       text    not null default '',         -- $YAOKI_MARK of its process tree; '' if nobody supervises it
    started_ms integer not null,
    ended_ms   integer not null default 0,
    stop_ms    integer not null default 0           -- ordered to stop: if it is killed after this, that is no crash
) strict;

-- What must not begin: '' is everything.
create table brake (
    scope text    primary key,
    by    text    not null,
    at_ms integer not null
) strict;

-- Runs that share a budget. Spent is what the journals of its runs say, added up in the transactions that write them.
create table grp (
    name            text    primary key,            -- run.grp
    calls_max       integer,                        -- bounds as set; null is none
    tokens_max      integer,
    cost_nusd_max   integer,                        -- in billionths of a dollar, as all costs here
    calls_more      integer not null default 0,     -- top-ups
    tokens_more     integer not null default 0,
    cost_nusd_more  integer not null default 0,
    calls           integer not null default 0,     -- spent, what calls in flight have reserved included
    tokens          integer not null default 0,
    cost_nusd       integer not null default 0,
    tokens_held     integer not null default 0,     -- reserved by calls in flight
    cost_nusd_held  integer not null default 0,
    freed           integer not null default 0,     -- raised when something comes back, and by a top-up
    starved         integer not null default 0      -- a run was refused since: what comes back wakes those that wait
) strict;

-- A discarded or pruned run: its id is never used again, since the keys of its effects were made from it.
create table tombstone (
    name  text    primary key,
    loop  text    not null,
    state text    not null,
    by    text    not null,
    at_ms integer not null,
    run   integer not null default 0                -- its number, while records of it are left to delete
) strict;
create index tombstone_left on tombstone (run) where run <> 0;

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
-- Who is told of what: the targets, and an outbox that each state change of a run fills in its own transaction.
create table target (
    id            integer primary key,
    name          text    not null,                 -- a hash of where to: addresses carry secrets
    shown         text    not null,                 -- for people, without the secrets
    added_ms      integer not null,
    upto          integer not null default 0,       -- notable.id up to which it was told
    sending       integer not null default 0,       -- up to which a message is under way; 0 is none
    sender        integer not null default 0,       -- worker.id that tells it; one at a time
    beat_ms       integer not null default 0,
    minute_ms     integer not null default 0,       -- when the minute began in which `sent` messages went out
    sent          integer not null default 0,
    failures      integer not null default 0,       -- in a row, of the message under way
    failing_ms    integer not null default 0,       -- since when; 0: the last one arrived
    error         text    not null default '',
    lost          integer not null default 0,       -- things given up on
    lost_ms       integer not null default 0
) strict;

create table notable (
    id      integer primary key autoincrement,      -- in the order of commits
    run     integer not null,                       -- 0: not about one run
    epoch   integer not null,
    what    text    not null,                       -- waiting, dead, capped, asks, rate
    subject text    not null default '',            -- what a waiting run waits for; for `rate` the tool
    note    text    not null default '',
    at_ms   integer not null
) strict;
create index notable_run on notable (run, id);

-- How many of a run's questions a target was told of: a run may move, and ask the same still.
create table told (
    run    integer not null,
    target integer not null,
    asks   integer not null,
    primary key (run, target)
) strict, without rowid;

-- Where nobody wants to be told, nothing is kept.
create trigger run_notable after update of state on run
when new.state <> old.state and (new.state in ('waiting', 'dead', 'capped')
    or (new.state = 'sleeping' and new.waits_for in ('person', 'budget', 'signal')))
begin
    insert into notable (run, epoch, what, subject, note, at_ms)
    select new.id, new.epoch, iif(new.state = 'sleeping', 'waiting', new.state), new.waits_for, new.note,
        new.changed_ms
    where exists (select 1 from target);
end;
