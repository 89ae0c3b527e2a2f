"""The dataflow as samplers walk it, and what is kept for a snapshot."""

from tests.insight.samplers.registries import registry, tool
from toolyard.insight.samplers.snapshot_view import snapshot_view_of

GIVEN = [tool("a"), tool("b"), tool("a", required=["x"]), tool("c", "m"), tool("d")]
EDGES = [(0, 1, 0.9), (1, 0, 0.4), (0, 2, 0.9), (1, 3, 0.8), (4, 1, 0.9)]


def graph(min_score=0.0, spaces=("n", "m")):
    return snapshot_view_of(registry(GIVEN, EDGES).snapshot).graph(min_score, spaces)


def test_edges_go_forward_and_back_best_first_and_never_between_overloads():
    made = graph()
    assert [[place for place, _ in row] for row in made.out] == [[1], [3, 0], [], [], [1]]
    assert [[place for place, _ in row] for row in made.into] == [[1], [0, 4], [], [1], []]
    assert made.linked == (0, 1, 3, 4)
    assert made.sources == (0, 1, 4)
    assert made.reach == [4, 4, 1, 4, 4]
    assert made.hubs(True, 2) == [1]
    assert made.hubs(False, 2) == [1]
    assert [edge.target for edge in made.path([0, 1, 3])] == ["n::b", "m::c"]


def test_weak_edges_and_namespaces_are_left_out():
    assert [[place for place, _ in row] for row in graph(0.5).out] == [[1], [3], [], [], [1]]
    assert [[place for place, _ in row] for row in graph(0.0, ("n",)).out] == [[1], [0], [], [], [1]]


def test_graphs_are_cached_up_to_a_limit():
    made = registry(GIVEN, EDGES)
    world = snapshot_view_of(made.snapshot)
    assert snapshot_view_of(made.snapshot) is world
    assert world.graph(0.5, ("n",)) is world.graph(0.5, ("n",))
    first = world.graph(0.0, ("n", "m"))
    for number in range(20):
        world.graph(number / 100 + 0.01, ("n", "m"))
    assert world.graph(0.0, ("n", "m")) is not first
    assert world.named("n", "a") == (0, 2)
    assert world.named("n", "zzz") == ()
    assert world.namesakes("c") == (3,)
