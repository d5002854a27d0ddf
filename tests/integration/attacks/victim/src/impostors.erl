%% An empty module whose name is as long as the agent's, so that its file becomes one of the agent's by renaming it.
-module(impostors).
