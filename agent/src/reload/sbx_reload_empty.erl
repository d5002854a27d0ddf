%%% An empty module, which sbx_reload_stub loads under other names.
-module(sbx_reload_empty).
