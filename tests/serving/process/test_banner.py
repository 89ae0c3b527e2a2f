"""What a server prints when it starts."""

from toolyard.app.blocks import ServerBlock
from toolyard.app.config import read_anything
from toolyard.serving.process.banner import write_banner
from toolyard.serving.service import build_service


def test_what_a_policy_denies_is_said_at_the_start_and_not_suggested(tmp_path):
    (tmp_path / "shop.py").write_text("def refund(order: int) -> str: ...\ndef look(order: int) -> str: ...\n")
    config = {"tools": [{"type": "python", "target": str(tmp_path / "shop.py"), "namespace": "shop"}]}
    for rules, said, shown in (
        ([{"deny": "shop::refund"}], "may use every tool but 1 that the policy denies", "shop::look:invoke"),
        ([], "may use every tool\n", "shop::refund:invoke"),
    ):
        service = build_service(read_anything({**config, "policy": {"rules": rules}}), ServerBlock(port=0))
        try:
            banner = write_banner(service, "http://x")
        finally:
            service.yard.close()
        assert said in banner and shown in banner
