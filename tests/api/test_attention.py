"""`attnlab.attention` takes what a new user would try, and says what to use instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import attnlab
from attnlab import Mask, Mechanism, create_mechanism
from attnlab._create_mechanism import ALIASES, note_alias
from attnlab.gates import sample_gates
from attnlab.mechanisms.relu import Relu

attention: Any = attnlab.attention  # mypy takes starred lists for all arguments
SIZES = (2, 3, 5, 7)  # batch, heads, length, width


def qkv(*shape: int, keys: int | None = None) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    shapes = [shape, *[(*shape[:-2], keys or shape[-2], shape[-1])] * 2]
    return [torch.randn(each, generator=generator, dtype=torch.float64) for each in shapes]


@pytest.mark.parametrize("name", ["softmax", "favor", "window", "6*softmax"])
@pytest.mark.parametrize("axes", [2, 3, 4])
def test_fewer_axes_are_the_same_attention(axes: int, name: str) -> None:
    name = name.replace("6", "1" if axes == 2 else "3")
    x = qkv(*SIZES[-axes:])
    expected = attention(*(tensor[(None,) * (4 - axes)] for tensor in x), name, causal=True)
    output, weights = attention(*x, name, causal=True, return_weights=True)
    assert output.shape == x[0].shape
    assert weights.shape == (*x[0].shape[:-1], x[1].shape[-2])
    torch.testing.assert_close(output, expected.reshape(output.shape))
    torch.testing.assert_close(weights @ x[2], output)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_arrays_give_numpy_arrays(dtype: type) -> None:
    q, k, v = (x.numpy().astype(dtype) for x in qkv(*SIZES[1:], keys=4))
    for array in (q, k, v):
        array.flags.writeable = False
    output, weights = attention(q[:, ::-1], k, v, return_weights=True)
    assert isinstance(output, np.ndarray)
    assert isinstance(weights, np.ndarray)
    assert output.dtype == weights.dtype == dtype
    scores = q[:, ::-1] @ k.swapaxes(1, 2) / np.sqrt(7)
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
    np.testing.assert_allclose(output, expected @ v, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("key_mask", [[True, True, False], np.array([True, True, False])])
def test_a_key_mask_needs_no_batch(key_mask: Any) -> None:
    q, k, v = qkv(5, 7, keys=3)
    weights = attention(q, k, v, key_mask=key_mask, return_weights=True)[1]
    assert (weights[:, 2] == 0).all()
    torch.testing.assert_close(
        weights,
        attention(
            q, k, v, "softmax", False, torch.tensor([[True, True, False]]), return_weights=True
        )[1],
    )


def test_gradients_reach_the_inputs() -> None:
    q, k, v = (x.requires_grad_() for x in qkv(5, 7))
    attention(q, k, v, "favor:features=16").sum().backward()
    assert all(x.grad is not None and x.grad.abs().sum() > 0 for x in (q, v))


def test_options_in_the_text_or_as_keywords() -> None:
    x = qkv(*SIZES)
    text = attention(*x, "favor:features=64,seed=3")
    torch.testing.assert_close(text, attention(*x, "favor", features=64, seed=3), rtol=0, atol=0)
    torch.testing.assert_close(text, attention(*x, "favor:features=64", seed=3), rtol=0, atol=0)
    groups = attention(*x, "1*window:window=2+2*softmax", causal=True)
    torch.testing.assert_close(groups[:, 1:], attention(*x, causal=True)[:, 1:])
    with pytest.raises(ValueError, match="write the options of each group into the text"):
        attention(*x, "1*window+2*softmax", window=2)


def test_a_mechanism_works_without_a_mask() -> None:
    q, k, v = qkv(*SIZES)
    mechanism = create_mechanism("softmax", head_dim=7, heads=3)
    torch.testing.assert_close(mechanism(q, k, v), mechanism(q, k, v, Mask()), rtol=0, atol=0)
    torch.testing.assert_close(mechanism(q, k, v), attention(q, k, v, mechanism), rtol=0, atol=0)
    with pytest.raises(
        TypeError, match=r"softmax: no argument 'is_causal'; give mask=attnlab.Mask"
    ):
        mechanism(q, k, v, is_causal=True)
    with pytest.raises(
        TypeError, match=r"softmax: mask is a Tensor; give attnlab.Mask\(causal=True\)"
    ):
        mechanism(q, k, v, torch.ones(5, 5))
    with pytest.raises(ValueError, match="Mask: causal is int 1; give True or False"):
        Mask(causal=1)  # type: ignore[arg-type]


X = qkv(5, 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attn_mask": 1}, "no argument 'attn_mask'; use causal=True, and key_mask="),
        ({"mask": Mask()}, "no argument 'mask'; use causal=True, and key_mask="),
        ({"is_causal": True}, "no argument 'is_causal'; use causal=True"),
        ({"key_padding_mask": 1}, "'key_padding_mask'; use key_mask=..., which is True for real"),
        ({"need_weights": True}, "use return_weights=True"),
        ({"scale": 1.0}, "use beta="),
        ({"causal": 1}, "causal is 1; give True or False"),
        ({"causal": torch.ones(5, 5)}, "causal is Tensor; give True or False"),
        ({"mechanism": torch.ones(5, 5)}, "mechanism is a Tensor; give a name, such as 'softmax'"),
        ({"q": [[1.0]]}, "q is a list; give a tensor or a numpy array"),
        ({"return_weights": "yes"}, "return_weights is 'yes'; give True or False"),
        ({"heads": 4}, "leave out 'heads'; it follows from q, k and v"),
    ],
)  # fmt: skip
def test_arguments_of_other_libraries_name_the_right_one(arguments: Any, message: str) -> None:
    q, k, v = X
    with pytest.raises(TypeError) as caught:
        attention(**{"q": q, "k": k, "v": v, **arguments})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": torch.ones(7)}, "q (7,) has 1 axes; give (T, D), (H, T, D) or (B, H, T, D)"),
        ({"k": torch.ones(1, 5, 7)}, "k (1, 5, 7) has 3 axes and q (5, 7) has 2"),
        ({"q": np.ones((5, 7), int)}, "q holds int64; give floating-point numbers"),
        ({"mechanism": "favor:heads=4"}, "'favor:heads=4': leave out 'heads'; it is set already"),
        ({"mechanism": "performr"}, "did you mean"),
        ({"mechanism": "linformer"}, "linformer: has learned parameters"),
        ({"sink": "learned"}, "softmax: has learned parameters"),
        ({"mechanism": "based:feature_dim=3"}, "based: has learned parameters"),
        ({"mechanism": "favor:feature=3"}, "did you mean 'features'?"),
        ({"key_mask": torch.ones(5)}, "key_mask is torch.float32 (1, 5); give booleans (B, S)"),
        ({"beta": [1]}, "beta is"),
        ({"key_mask": "11111"}, "key_mask is"),
        ({"key_mask": [[True], [True, False]]}, "key_mask is a list that holds no booleans"),
        ({"q": np.ones((5, 7), np.longdouble)}, "give float16, float32 or float64"),
        ({"mechanism": "favor:features=99999999999"}, "features is 99,999,999,999; give at most"),
    ],
)  # fmt: skip
def test_wrong_inputs_are_one_line(arguments: Any, message: str) -> None:
    q, k, v = X
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        attention(**{"q": q, "k": k, "v": v, **arguments})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_aliases_work_with_a_note(alias: str, name: str) -> None:
    x = qkv(*SIZES)
    note = f"'{alias}' is called '{name}' in attnlab; using '{name}'"
    note_alias.cache_clear()
    with pytest.warns(UserWarning, match=note):
        output = attention(*x, alias)
    torch.testing.assert_close(output, attention(*x, name), rtol=0, atol=0)
    note_alias.cache_clear()
    with pytest.warns(UserWarning, match=note):
        assert isinstance(create_mechanism(alias, head_dim=7, heads=3), attnlab.MECHANISMS[name])


def test_a_registered_name_wins_over_an_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    class Linear(Relu):
        name = "linear"

    monkeypatch.setitem(attnlab.MECHANISMS.entries, "linear", Linear)
    assert isinstance(create_mechanism("linear", head_dim=7, heads=3), Linear)
    assert issubclass(Linear, Mechanism)


def test_the_cache_keeps_types_apart() -> None:
    q, k, v = X
    first = attention(q, k, v, "favor", features=70)
    with pytest.raises(ValueError, match=r"features is 70\.0; give a whole number"):
        attention(q, k, v, "favor", features=70.0)
    torch.testing.assert_close(first, attention(q, k, v, "favor", features=np.int64(70)))
    torch.testing.assert_close(attention(q, k, v, "favor"), attention(q, k, v, "favor", seed=None))


def test_one_call_has_no_dropout() -> None:
    q, k, v = X
    for arguments in ({"dropout": 0.5}, {"mechanism": "softmax:dropout=0.5"}):
        with pytest.raises(ValueError, match="one call has no dropout"):
            attention(q, k, v, **arguments)


def test_models_and_benches_know_the_mechanism_not_the_alias() -> None:
    from attnlab.bench._run_bench import without_repeats
    from attnlab.models import StackConfig

    note_alias.cache_clear()
    with pytest.warns(UserWarning, match="is called 'favor'") as notes:
        config = StackConfig(vocabulary=5, context=8, attention="2*performer:features=8+2*softmax")
    assert config.attention == "2*favor:features=8+2*softmax"
    assert without_repeats(["performer", "favor"]) == ["favor"]  # and no second note
    assert [note.filename for note in notes] == [__file__]


def test_create_mechanism_takes_options_in_the_text() -> None:
    q, k, v = (x[None, None] for x in X)
    written = create_mechanism("favor:features=16,seed=3", head_dim=7, heads=1)
    passed = create_mechanism("favor", head_dim=7, heads=1, features=16, seed=3)
    assert torch.equal(written(q, k, v), passed(q, k, v))
    with pytest.raises(ValueError, match="has several mechanisms; give the name of one"):
        create_mechanism("2*softmax+2*elu", head_dim=7, heads=4)
    with pytest.raises(ValueError, match="leave out 'head_dim'; it is set already"):
        create_mechanism("favor:head_dim=9", head_dim=7, heads=1)


GATED = [name for name, kind in attnlab.MECHANISMS.items() if kind.gates]


@pytest.mark.parametrize("axes", [2, 3, 4])
@pytest.mark.parametrize("name", GATED)
def test_gates_have_the_axes_of_the_keys(name: str, axes: int) -> None:
    """(S,) or (S, D) for (S, D) keys, and so on; numpy arrays too."""
    x = qkv(*SIZES[-axes:])
    missing = (None,) * (4 - axes)
    whole = [tensor[missing] for tensor in x]
    kind = attnlab.MECHANISMS[name]
    gates = sample_gates(kind.gates, whole[1], torch.Generator().manual_seed(1))
    heads = whole[0].shape[1]
    mechanism: Any = create_mechanism(name, head_dim=SIZES[3], heads=heads)
    expected = mechanism(*whole, Mask(causal=True), **gates)[(0,) * (4 - axes)]
    given = {gate: value[(0,) * (4 - axes)] for gate, value in gates.items()}
    output, weights = attention(*x, name, causal=True, return_weights=True, **given)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights @ x[2], output)
    arrays = {gate: value.numpy() for gate, value in given.items()}
    in_numpy = attention(*(each.numpy() for each in x), name, causal=True, **arrays)
    np.testing.assert_allclose(in_numpy, output.numpy())


def test_gates_of_a_group_of_heads_have_its_number() -> None:
    q, k, v = qkv(*SIZES)
    decay = -torch.rand(k.shape, generator=torch.Generator().manual_seed(1), dtype=k.dtype)
    output = attention(q, k, v, "1*softmax+2*gla", causal=True, log_decay_1=decay)
    alone = attention(q[:, 1:], k[:, 1:], v[:, 1:], "gla", causal=True, log_decay=decay[:, 1:])
    torch.testing.assert_close(output[:, 1:], alone)
    with pytest.raises(ValueError, match=r"log_decay_1 is missing; give log_decay_1=\(B, key"):
        attention(q, k, v, "1*softmax+2*gla", causal=True)


def test_a_gate_that_is_not_taken() -> None:
    q, k, v = qkv(*SIZES)
    with pytest.raises(ValueError, match="softmax: takes no gate; leave out log_decay"):
        attention(q, k, v, log_decay=k[..., 0])
    with pytest.raises(ValueError, match="gla: takes log_decay; leave out write_strength"):
        attention(q, k, v, "gla", causal=True, log_decay=-k.abs(), write_strength=k[..., 0])
    with pytest.raises(ValueError, match=r"log_decay_1 is missing; give log_decay_1=\(B, key"):
        attention(q, k, v, "1*softmax+2*gla", causal=True, log_decay=-k.abs())
    words = "gla: no option 'log_decays'; did you mean 'log_decay'.*its gates.*: log_decay"
    with pytest.raises(ValueError, match=words):
        attention(q, k, v, "gla", causal=True, log_decays=-k.abs())
    with pytest.raises(ValueError, match=r"gla: exists only in causal form; give causal=True$"):
        attention(q, k, v, "gla", log_decay=-k.abs())


def test_a_table_over_positions_is_as_long_as_the_keys() -> None:
    q, k, v = qkv(*SIZES)
    for keys in (5, 3):
        output = attention(q[:, :, :keys], k[:, :, :keys], v[:, :, :keys], "cosformer")
        mechanism = create_mechanism("cosformer", head_dim=7, heads=3, max_length=keys)
        expected = mechanism(q[:, :, :keys], k[:, :, :keys], v[:, :, :keys], Mask())
        torch.testing.assert_close(output, expected)
    with pytest.raises(TypeError, match="leave out 'max_length'; it follows from q, k and v"):
        attention(q, k, v, "cosformer", max_length=9)
