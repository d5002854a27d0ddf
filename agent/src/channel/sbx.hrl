%%% Constants of the channel between the agent and the daemon.

-define(PROTOCOL, 1).

%% The daemon refuses longer frames. A compiler node may send longer ones than other nodes.
-define(FRAME_MAX_BYTES, 16 * 1024 * 1024).
-define(COMPILE_FRAME_MAX_BYTES, 64 * 1024 * 1024).

%% The daemon keeps output in records of at most this many bytes.
-define(OUTPUT_MAX_BYTES, 4096).
