"""What goes on beside the requests."""

from waiting import until

from serving.service_support import CORE, served
from toolyard.model.errors import EnrichmentError


def test_what_goes_on_beside_the_requests_begins_again_after_a_fault(tmp_path, monkeypatch):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as server:
        registry = server.service.yard.tool_registry
        real = registry.refresh

        def failing(**options):
            monkeypatch.setattr(registry, "refresh", real)
            raise EnrichmentError("an enrichment failed")

        monkeypatch.setattr(registry, "refresh", failing)
        server.service.records.put("reload", "", "last", b"elsewhere")
        until(lambda: registry.refresh == real)
        server.service.records.put("tool", "", "far::away", b'{"description":"from another process"}')
        until(lambda: registry.get("far::away"))
        assert until(lambda: server.get("/v1/health").json["status"] == "ok")
