"""Workers that pull from one shared queue, against routers that push: the same product around both."""
