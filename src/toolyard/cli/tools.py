"""`toolyard tools`: what there is."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from toolyard.cli.output import counted, print_json, print_table, print_text
from toolyard.cli.yard import ConfigOption, JsonOption, SkipOption, open_registry


def tools(
    *,
    namespace: Annotated[str | None, Parameter(name=["--namespace", "-n"])] = None,
    tag: Annotated[str | None, Parameter(name=["--tag", "-t"])] = None,
    config: ConfigOption = None,
    skip_bad: SkipOption = False,
    json: JsonOption = False,
) -> int:
    """List the tools, in registration order.

    Parameters
    ----------
    namespace
        Only tools of this namespace.
    tag
        Only tools with this tag.
    """
    with open_registry(config, skip_bad=skip_bad) as registry:
        found = [
            tool
            for tool in registry
            if (namespace is None or tool.namespace == namespace) and (tag is None or tag in tool.tags)
        ]
    if json:
        print_json([tool.to_dict(qualified=True) for tool in found])
        return 0
    rows = [(tool.qualified_name, tool.effects.value, tool.description.partition("\n")[0]) for tool in found]
    print_table("Tools", ["name", "effects", "description"], rows)
    print_text(counted(len(found), "tool"))
    return 0
