// Tokenizers of the C interface, for programs that train on tokens of their own.
#include <algorithm>

#include "bindings/c/handles.h"
#include "models/text/load_tokenizer.h"

struct gn_tokenizer {
  genesis::text::NamedTokenizer named;
};

using namespace genesis;
using namespace genesis::c;

extern "C" {

gn_error* gn_tokenizer_open(const char* path, gn_tokenizer** out) {
  return guarded("gn_tokenizer_open", [&] {
    gn_tokenizer*& result = output(out);
    result = new gn_tokenizer{text::load_named_tokenizer(text_of(path, "path"))};
  });
}

gn_error* gn_tokenizer_encode(const gn_tokenizer* tokenizer, const char* text, int32_t special,
                              gn_tensor** out) {
  return guarded("gn_tokenizer_encode", [&] {
    gn_tensor*& result = output(out);
    if (special != 0 && special != 1)
      throw BadArgument(fmt::format("special is {}, expected 0 or 1", special));
    result = new_tensor(
        Tensor::of(
            required(tokenizer, "tokenizer").named.tokenizer.encode(text_of(text, "text"), special == 1)),
        true);
  });
}

gn_error* gn_tokenizer_decode(const gn_tokenizer* tokenizer, const gn_tensor* tokens, char** out) {
  return guarded("gn_tokenizer_decode", [&] {
    char*& result = output(out);
    const auto numbers = required(tokens, "tokens").host().as<int64_t>();
    result = new_text(required(tokenizer, "tokenizer").named.tokenizer.decode(numbers));
  });
}

int64_t gn_tokenizer_size(const gn_tokenizer* tokenizer) { return tokenizer ? tokenizer->named.ids : -1; }
void gn_tokenizer_free(gn_tokenizer* tokenizer) { delete tokenizer; }

}  // extern "C"
