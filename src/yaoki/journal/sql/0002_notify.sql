-- 0002: notifications.

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
