// /tokenize and /detokenize, with the fields of llama.cpp's server.
#include "models/serving/fields.h"
#include "models/serving/routes.h"

namespace genesis::serving {

void answer_tokenize(const Call& call) {
  const LanguageModel& model = call.language();
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  read_model(fields, call.host);
  fields.required("content", "a string");
  const std::string text = *fields.text("content");
  const bool add_special = fields.flag("add_special").value_or(false),
             with_pieces = fields.flag("with_pieces").value_or(false);
  fields.refuse_others();
  Json tokens = Json::array();
  for (const int64_t token : model.encode(text, add_special)) {
    if (with_pieces)
      tokens.push_back({{"id", token}, {"piece", model.token_bytes(token)}});
    else
      tokens.push_back(token);
  }
  call.send({{"tokens", std::move(tokens)}});
}

void answer_detokenize(const Call& call) {
  const LanguageModel& model = call.language();
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  read_model(fields, call.host);
  const std::vector<int64_t> tokens =
      fields.whole_numbers("tokens", fields.required("tokens", "a list of tokens"));
  fields.refuse_others();
  for (const int64_t token : tokens)
    if (token < 0 || token >= model.vocab_size())
      refuse("tokens", "tokens: the token {} is none of the model's {}", token, model.vocab_size());
  call.send({{"content", model.decode(tokens)}});
}

}  // namespace genesis::serving
