%%% Records that the modules of a reload share.

%% One module of the set that changes.
-record(change, {
    module :: module(),
    action :: load | delete,
    %% The new code and the code that runs now.
    beam :: binary() | nil,
    old_beam :: binary() | nil,
    version :: integer(),
    old_version :: integer() | nil
}).

%% A process whose callback module changes and that understands system messages.
-record(user, {
    pid :: pid(),
    kind :: server | statem | event | supervisor | special | agent,
    %% An event manager can have several modules.
    modules :: [module()]
}).

%% The key in the process dictionary for an old state that is too large to be copied.
-define(KEPT, '$sandbox_kept_state').

%% The progress of a transaction.
-record(reload, {
    id :: binary(),
    args :: map(),
    %% The call's process, which dies when the daemon's connection ends.
    caller :: pid(),
    reference :: reference(),
    monitor :: reference(),
    changes = [] :: [#change{}],
    modules = [] :: [module()],
    %% Those, and modules whose states the caller migrates though their code stays.
    wanted = [] :: [module()],
    set = none :: none | sbx_reload_load:set(),
    plans = #{} :: #{module() => sbx_reload_state:plan()},
    %% Of the versions that are replaced.
    identities = #{} :: #{module() => sbx_reload_old_code:identity()},
    %% The callback modes of the state machines' modules.
    modes = #{} :: #{module() => term()},
    seen :: sbx_reload_users:seen() | undefined,
    users = [] :: [#user{}],
    places = #{} :: #{pid() => sbx_reload_successor:place()},
    plain = [] :: [{pid(), module()}],
    %% The structs and records that are defined anew.
    fields = [] :: [sbx_shape_fields:change()],
    loaded = false :: boolean(),
    %% What was done with each state.
    reports = [] :: [{pid(), module(), sbx_reload_state:report()}],
    resumed = false :: boolean(),
    %% Monitors of the processes that are suspended, set before that.
    monitors = #{} :: #{reference() => {pid(), module()}},
    %% The supervisors of the users.
    parents = [] :: [pid()],
    %% Supervisors that are suspended so that they start no more of these processes meanwhile.
    halted = [] :: [pid()],
    %% The supervisor that was started with a list of children and got another list, and the old
    %% list.
    list = none :: none | {pid(), term()},
    %% What was done with children, newest first.
    actions = [] :: [sbx_reload_children:action()],
    warnings = [] :: [binary()],
    began_us :: integer(),
    paused_us = 0 :: integer(),
    pause_us = 0 :: integer()
}).
