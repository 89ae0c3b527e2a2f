"""Pictures of the dataflow: which tools feed which, namespace by namespace."""

from toolyard.insight.graph.choose import Wanted, choose
from toolyard.insight.graph.html import to_html
from toolyard.insight.graph.layout import lay_out
from toolyard.insight.graph.picture import Box, Line, Node, Picture
from toolyard.insight.graph.svg import to_svg

__all__ = ["Box", "Line", "Node", "Picture", "Wanted", "choose", "lay_out", "to_html", "to_svg"]
