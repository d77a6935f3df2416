"""Law: no malformed request is answered by 5xx or changes anything."""

import random

from app.serve.serving import serving, state_of, stream
from experiments.checks.serve_fuzz import answered, malformed
from streamgp.app.serve import server


def test_malformed_requests_are_refused_and_change_nothing(tmp_path):
    with serving(tmp_path / "m") as s:
        s.learn(*stream(60))
        before = s.service.gp.learner_, state_of(s.service.gp), s.service.number
        listening = server.bound("127.0.0.1", 0)
        beside = server.BesideServer(s.client.app, listening)
        beside.start()
        chance = random.Random(1)
        found = [
            (request, answered(listening.getsockname()[1], request))
            for request in (malformed(chance) for _ in range(400))
        ]
        beside.stop()
        assert [item for item in found if item[1] >= 500] == []
        assert len({status for _, status in found}) >= 7
        assert s.service.gp.learner_ is before[0]
        assert (state_of(s.service.gp), s.service.number, s.service.kept) == (*before[1:], {})
        assert not s.writer.failure
