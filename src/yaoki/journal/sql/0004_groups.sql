-- 0004: groups of runs with a budget of their own, and what each run has cost.

create table grp (
    name            text    primary key,
    calls_max       integer,
    tokens_max      integer,
    cost_nusd_max   integer,
    calls_more      integer not null default 0,
    tokens_more     integer not null default 0,
    cost_nusd_more  integer not null default 0,
    calls           integer not null default 0,
    tokens          integer not null default 0,
    cost_nusd       integer not null default 0,
    tokens_held     integer not null default 0,
    cost_nusd_held  integer not null default 0,
    freed           integer not null default 0,
    starved         integer not null default 0
) strict;
insert into grp (name) select distinct grp from run where grp <> '';

create index run_grp on run (grp) where grp <> '';

alter table run add column cost_nusd integer not null default 0;
create index run_cost on run (state, loop, cost_nusd) where cost_nusd > 0;
