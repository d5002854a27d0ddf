%% What the agent's modules agree on.

-define(PROTOCOL, 1).

%% The longest frame the daemon takes from a node; a compiler's may be longer.
-define(FRAME_MAX_BYTES, 16 * 1024 * 1024).
-define(COMPILE_FRAME_MAX_BYTES, 64 * 1024 * 1024).

%% The daemon keeps output in records of at most so many bytes.
-define(OUTPUT_MAX_BYTES, 4096).
