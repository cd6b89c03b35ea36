// The common part of encoders, networks in which every token of a text sees all others, and their entry points:
//
//   hidden   tokens i64[batch,seq], lengths i64[batch] -> hidden [batch,seq,features]; from a model with a pooler also pooled
//            [batch,features]
//   forward  the same inputs -> logits f32: [batch,labels] of a classifier of texts, [batch,seq,labels] of a classifier of tokens,
//            [batch,seq,vocab] of a masked language model. A model without a head has no such entry point
//   loss     the same inputs, targets -> loss f32[]. Targets are i64 classes, [batch] or [batch,seq], of which those of -100 do not
//            count; for several labels at a time f32[batch,labels] from 0 to 1; for regression f32[batch] or f32[batch,labels]
//
// A model that distinguishes the first and the second text of a pair takes one more input, behind lengths: token_types
// i64[batch,seq].
//
// A row is padded behind its `lengths` tokens with arbitrary tokens, whose results are meaningless. A row gives the result that its
// text gives alone, up to rounding.
#pragma once

#include <functional>

#include "schema/core/attributes.h"
#include "schema/graph/graph.h"

namespace genesis::models {

enum class EncoderHead : uint8_t { kNone, kMaskedLm, kSequence, kToken };

// The loss of a classifier of texts. kDefault: regression for one label, else one label of several.
enum class ProblemType : uint8_t { kDefault, kRegression, kSingleLabel, kMultiLabel };

struct EncoderInput {
  Value tokens;   // i64[batch, seq]
  Value lengths;  // i64[batch]
  Value types;    // i64[batch, seq]; empty: the model has no such input
};

struct Encoder {
  std::function<Value(const EncoderInput& input)> hidden;  // -> [batch, seq, features]
  std::function<Value(Value hidden)> pooled = {};          // -> [batch, features]; empty: no pooler
  // -> logits. With `wide` they are f32 even if weights have 16 bits. Empty: no head.
  std::function<Value(Value hidden, const EncoderInput& input, bool wide)> logits = {};
  bool has_types = false;
  EncoderHead head = EncoderHead::kNone;
  ProblemType problem = ProblemType::kDefault;
  int64_t labels = 2;
};

void add_encoder_entries(Model& model, const Encoder& encoder);

// Returns bool[batch, seq]: true for tokens that are not padding.
Value real_tokens(const EncoderInput& input);

}  // namespace genesis::models

namespace genesis {

template <>
struct EnumNames<models::EncoderHead> {
  static constexpr std::string_view names[] = {"none", "masked_lm", "sequence_classification",
                                               "token_classification"};
};
template <>
struct EnumNames<models::ProblemType> {
  static constexpr std::string_view names[] = {"default", "regression", "single_label_classification",
                                               "multi_label_classification"};
};

}  // namespace genesis
