"""all-MiniLM-L6-v2 in plain numpy and full precision: slow, and what the quick one is held to."""

from math import sqrt

import numpy as np

from toolyard.insight.embeddings.model_files import packaged_folder, read_tensors

HEADS = 12
LAYERS = 6


def erf(x):
    """Abramowitz and Stegun 7.1.26: exact to 1.5e-7, which is enough for float32."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - poly * np.exp(-x * x))


class NumpyBert:
    def __init__(self):
        from tokenizers import Tokenizer

        folder = packaged_folder()
        assert folder is not None, "the weights are not installed; `make setup` installs them"
        self.weights = read_tensors(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)

    def encode(self, text):
        ids = self.tokenizer.encode(text).ids
        state = self.weights["embeddings.word_embeddings.weight"][ids]
        state = state + self.weights["embeddings.position_embeddings.weight"][: len(ids)]
        state = state + self.weights["embeddings.token_type_embeddings.weight"][0]
        state = self.normed(state, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            state = self.layer(state, f"encoder.layer.{layer}")
        row = state.mean(axis=0)
        return row / np.linalg.norm(row)

    def layer(self, state, at):
        query, key, value = (self.heads(state, f"{at}.attention.self.{part}") for part in ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1) / sqrt(query.shape[-1])
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        seen = (shares @ value).transpose(1, 0, 2).reshape(state.shape)
        state = self.normed(
            self.linear(seen, f"{at}.attention.output.dense") + state, f"{at}.attention.output.LayerNorm"
        )
        inner = self.linear(state, f"{at}.intermediate.dense")
        inner = inner * (1 + erf(inner / sqrt(2))) / 2
        return self.normed(self.linear(inner, f"{at}.output.dense") + state, f"{at}.output.LayerNorm")

    def heads(self, state, name):
        return self.linear(state, name).reshape(len(state), HEADS, -1).transpose(1, 0, 2)

    def linear(self, state, name):
        return state @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def normed(self, state, name):
        mean, spread = state.mean(axis=-1, keepdims=True), state.var(axis=-1, keepdims=True)
        return (state - mean) / np.sqrt(spread + 1e-12) * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
