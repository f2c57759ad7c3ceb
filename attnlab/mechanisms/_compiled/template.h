/* Everything that is compiled once for float and once for double. */
#include "vectors.h"
#include "tiles.h"
#include "features.h"
#include "causal.h"
#include "whole.h"
#include "step.h"
#include "blocks.h"
