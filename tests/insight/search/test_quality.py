"""How well search does on a small part of the labelled queries, so that a change that spoils it is seen."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.eval_search import collected, scored
from toolyard.insight.embeddings.choice import default_embedder
from toolyard.insight.search.rank import HYBRID_WEIGHTS, LEXICAL_WEIGHTS

FOLDER = Path(__file__).resolve().parents[2] / "data" / "retrieval"


@pytest.mark.parametrize(("lexical", "hit", "recall"), [(True, 0.6, 0.7), (False, 0.65, 0.8)])
def test_the_right_tool_comes_first_and_where_it_is_not_there_little_is_offered(lexical, hit, recall):
    if not lexical and default_embedder() is None:
        pytest.skip("THE EMBEDDING WEIGHTS ARE NOT INSTALLED: run `toolyard embeddings install`")
    weights = LEXICAL_WEIGHTS if lexical else HYBRID_WEIGHTS
    asked = collected(FOLDER, lexical)
    scores = scored(asked, weights)
    assert len(asked) == 80
    assert np.mean(scores.hit) >= hit
    assert np.mean(scores.recall) >= recall
    assert np.mean(np.array(scores.best_without) >= weights.threshold) <= 0.2
    assert np.mean(np.array(scores.best)[np.array(scores.hit) > 0] >= weights.threshold) >= 0.5
