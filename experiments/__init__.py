"""The experiments of streamgp: the paper, the peers, speed and checks; not part of the wheel."""
