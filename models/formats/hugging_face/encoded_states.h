// Gives a model's states the values of quantized weights: kept in a format of the library that holds exactly the same values, or
// widened to the state's dtype.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "models/families.h"
#include "models/formats/hugging_face/checkpoint.h"
#include "models/formats/hugging_face/quantized_weights.h"
#include "schema/graph/model.h"

namespace genesis::models::hugging_face {

// Returns a tensor of this type without values: it takes the place of an encoded weight while names and shapes are checked, before
// memory is allocated.
Tensor stand_in(const TensorType& type);
// Adds a stand-in to weights.tensors for each weight in weights.encoded.
void add_stand_ins(const Model& model, const Family& family, CheckpointWeights& weights);

// Counts what became of quantized tensors: by the kind that they were in the file, and by the format that they are kept in.
struct QuantizedReport {
  std::map<std::string, int> widened, kept;
  // Returns "12 tensors kept as q8, 30 widened from Q4_K to bf16"; empty if there is nothing to tell.
  std::string to_string(DType dtype) const;
};

// Keeps encoded values as a state's, frozen, because no training changes them.
void set_kept(Model& model, int32_t state, EncodedValues values, QuantizedReport& report);

// Sets the states of all encoded weights that the model has, one weight after another.
QuantizedReport set_encoded_states(Model& model, const Family& family,
                                   const quantized::EncodedWeights& weights, Quantized quantized);

}  // namespace genesis::models::hugging_face
