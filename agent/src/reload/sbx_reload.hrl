%% What the modules of a reload agree on.

%% One module of the set that changes.
-record(change, {
    module :: module(),
    action :: load | delete,
    %% The new bytes, and those that run now.
    beam :: binary() | nil,
    old_beam :: binary() | nil,
    version :: integer(),
    old_version :: integer() | nil
}).

%% A process whose callback module changes and that speaks the protocol of system messages.
-record(user, {
    pid :: pid(),
    kind :: server | statem | event | supervisor | special | agent,
    %% An event manager can have several.
    modules :: [module()]
}).

%% Where a process keeps the state it had, when that is too large to be copied.
-define(KEPT, '$sandbox_kept_state').

%% A transaction, as far as it has come.
-record(reload, {
    id :: binary(),
    args :: map(),
    %% Who asked: gone when the daemon is.
    caller :: pid(),
    reference :: reference(),
    monitor :: reference(),
    changes = [] :: [#change{}],
    modules = [] :: [module()],
    set = none :: none | sbx_reload_load:set(),
    plans = #{} :: #{module() => sbx_reload_state:plan()},
    %% Of the versions that are replaced.
    identities = #{} :: #{module() => sbx_reload_old_code:identity()},
    %% How the state machines' modules want to be called.
    modes = #{} :: #{module() => term()},
    seen :: sbx_reload_users:seen() | undefined,
    users = [] :: [#user{}],
    places = #{} :: #{pid() => sbx_reload_successor:place()},
    plain = [] :: [{pid(), module()}],
    loaded = false :: boolean(),
    %% What was done with each state.
    reports = [] :: [{pid(), module(), sbx_reload_state:report()}],
    resumed = false :: boolean(),
    %% On every process that is stopped, from before it is.
    monitors = #{} :: #{reference() => {pid(), module()}},
    %% The supervisors of the users.
    parents = [] :: [pid()],
    %% Supervisors that are kept from starting more of these meanwhile.
    halted = [] :: [pid()],
    %% A supervisor that was started with a list and got another, and the one it had.
    list = none :: none | {pid(), term()},
    %% What was done with children, newest first.
    actions = [] :: [sbx_reload_children:action()],
    warnings = [] :: [binary()],
    began_us :: integer(),
    paused_us = 0 :: integer(),
    pause_us = 0 :: integer()
}).
