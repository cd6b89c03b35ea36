// Keeps quantized weights in a format of the library whose values are exactly those of the checkpoint.
#pragma once

#include "models/formats/hugging_face/quantized/encoded_weight.h"
#include "schema/encoding/state_format.h"

namespace genesis::models::hugging_face::quantized {

// Returns the weight in the smallest format that holds exactly the same values; no values if there is none: integers in groups of
// whole blocks, with scales that are numbers of f16, are held by q4 if they lie in [-8, 7], and by q8 if they lie in [-127, 127].
EncodedValues kept(const EncodedWeight& weight, DType meant);

}  // namespace genesis::models::hugging_face::quantized
