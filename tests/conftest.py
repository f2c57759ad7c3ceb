from __future__ import annotations

import hypothesis
import torch

# No deadline: the machines are shared, and a slow example is not a wrong one. The same examples in
# every run, so that a failure in CI is the failure at home.
hypothesis.settings.register_profile("attnlab", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("attnlab")
torch.set_num_threads(1)
