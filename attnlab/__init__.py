"""A workbench for attention: build, train, inspect and compare attention mechanisms.

One call of a mechanism
    attention(q, k, v, "favor")   attend once, on tensors or numpy arrays
    show(A, tokens)               draw a matrix of attention weights
    MECHANISMS                    all mechanisms by name
    create_mechanism(name, ...)   a mechanism for a model of your own
    Mask(causal=True)             who may attend to whom

Models
    look(model, text)             see what any model attends to, as a page or in a notebook
    with capture(model) as c:     record queries, keys, values and weights of a model
    with intervene(model)...:     ablate heads, edit weights, patch; record keeps activations
    head_importance, attribute    what each head does to a prediction; find_heads, average
    logit_lens, patching_map      what each layer predicts, and where an answer is decided

Mechanisms of your own
    Mechanism, Card               the class to derive from, and what it declares
    register_mechanism(cls)       make it known by its name
    check_laws(name)              test it against the laws that all mechanisms obey
    load_extension(file)          load mechanisms, tasks and claims from a file

Packages
    attnlab.mechanisms    the mechanisms          attnlab.training    the training loop
    attnlab.gates         decay and strength      attnlab.layers      MultiHead, Block
    attnlab.models        decoder, encoder, ...   attnlab.tasks       what models learn
    attnlab.generate      decoding                attnlab.compare     mechanisms on a task
    attnlab.huggingface   other people's models   attnlab.claims      statements, tested
    attnlab.interpret     captures                attnlab.bench       error, speed, memory
    attnlab.heads         a model's heads         attnlab.report      tables, plots, pages

The command line has the rest: type attnlab --help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab._attention import attention as attention
    from attnlab._create_mechanism import create_mechanism as create_mechanism
    from attnlab._register_mechanism import register_mechanism as register_mechanism
    from attnlab._show import show as show
    from attnlab.extensions import load_extension as load_extension
    from attnlab.interpret._attribution import attribute as attribute
    from attnlab.interpret._average_attention import average as average
    from attnlab.interpret._capture import capture as capture
    from attnlab.interpret._find_heads import find_heads as find_heads
    from attnlab.interpret._head_importance import head_importance as head_importance
    from attnlab.interpret._intervene import intervene as intervene
    from attnlab.interpret._logit_lens import logit_lens as logit_lens
    from attnlab.interpret._look import look as look
    from attnlab.interpret._patching_map import patching_map as patching_map
    from attnlab.interpret._record import record as record
    from attnlab.laws import check_laws as check_laws
    from attnlab.mask import Mask as Mask
    from attnlab.mechanism import Card as Card
    from attnlab.mechanism import Mechanism as Mechanism
    from attnlab.mechanisms import MECHANISMS as MECHANISMS

__version__ = "0.2.0"

_PUBLIC = {
    "Card": "attnlab.mechanism",
    "MECHANISMS": "attnlab.mechanisms",
    "Mask": "attnlab.mask",
    "Mechanism": "attnlab.mechanism",
    "attention": "attnlab._attention",
    "attribute": "attnlab.interpret._attribution",
    "average": "attnlab.interpret._average_attention",
    "capture": "attnlab.interpret._capture",
    "check_laws": "attnlab.laws",
    "create_mechanism": "attnlab._create_mechanism",
    "find_heads": "attnlab.interpret._find_heads",
    "head_importance": "attnlab.interpret._head_importance",
    "intervene": "attnlab.interpret._intervene",
    "load_extension": "attnlab.extensions",
    "logit_lens": "attnlab.interpret._logit_lens",
    "look": "attnlab.interpret._look",
    "patching_map": "attnlab.interpret._patching_map",
    "record": "attnlab.interpret._record",
    "register_mechanism": "attnlab._register_mechanism",
    "show": "attnlab._show",
}
MODEL_ADAPTERS = (
    "attnlab.interpret._attnlab_hooks:AttnlabAdapter",
    "attnlab.huggingface._inspected_models:HuggingFaceAdapter",
)
"""Libraries whose models `look` and `capture` can open, in the order in which they are tried."""
__all__ = [
    "MECHANISMS",
    "Card",
    "Mask",
    "Mechanism",
    "attention",
    "attribute",
    "average",
    "capture",
    "check_laws",
    "create_mechanism",
    "find_heads",
    "head_importance",
    "intervene",
    "load_extension",
    "logit_lens",
    "look",
    "patching_map",
    "record",
    "register_mechanism",
    "show",
]
__getattr__ = lazy_names(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
