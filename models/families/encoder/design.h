// The design of the encoder of a family like BERT: the names of its layers, how it knows positions, and its heads. The tables of
// the families choose it; encoder.cpp and heads.cpp build it.
#pragma once

#include <cstdint>

#include "schema/graph/graph.h"

namespace genesis::models {

// The names of the parts of a layer below "<layers>.<i>".
struct EncoderLayerNames {
  const char* layers = "encoder.layer";
  const char* query = "attention.self.query";
  const char* key = "attention.self.key";
  const char* value = "attention.self.value";
  const char* attention_output = "attention.output.dense";
  const char* attention_norm = "attention.output.LayerNorm";
  const char* up = "intermediate.dense";
  const char* down = "output.dense";
  const char* mlp_norm = "output.LayerNorm";
};

// The places by which tokens are known.
enum class EncoderPositions : uint8_t {
  kCounted,        // 0, 1, 2, ...
  kBehindPadding,  // padding_idx + 1, + 2, ...; tokens of padding do not count and have the position padding_idx
};

// The heads. A classifier of texts is classifier(activation(dense(first token))).
struct EncoderHeadNames {
  const char* dense = nullptr;           // null: the pooler, dense with tanh, which belongs to the base model
  Value (*activation)(Value) = nullptr;  // behind dense
  const char* classifier = "classifier";
  const char* mlm_dense = "cls.predictions.transform.dense";
  const char* mlm_norm = "cls.predictions.transform.LayerNorm";
  const char* mlm_bias = "cls.predictions";  // the layer that has the bias of the logits
  bool mlm_has_gelu = false;  // the head of masked tokens has GELU; false: the activation of the layers
};

struct EncoderDesign {
  const char* prefix = "bert";  // precedes the names of the base model in models with a head
  EncoderLayerNames layers = {};
  EncoderHeadNames heads = {};
  EncoderPositions positions = EncoderPositions::kCounted;
  int64_t padding_idx = 0;  // the token of padding, for kBehindPadding
  // Rows of the table of types of tokens; 0: none. With more than one row the model takes the types as an input if it
  // `reads_types`; otherwise all tokens have the type 0.
  int64_t types = 0;
  bool reads_types = false;
  bool has_pooler = false;  // the base model has a pooler where it has no other head
  int64_t relative_buckets =
      0;  // scores get a learned bias by distance in so many buckets, as in T5; 0: none
};

}  // namespace genesis::models
