#include "tools/text/text_codec.h"

#include "models/generation/generate.h"
#include "models/generation/vocabulary.h"
#include "models/tokenizer/model_files.h"
#include "tools/text/load_tokenizer.h"

namespace genesis::tools {

TextCodec::TextCodec(const Model& model, const std::string& file, const std::string& tokenizer) {
  tokenizer_ = load_fitting_tokenizer(tokenizer, model, file, text::vocabulary_of(model.entry("decode"), 2));
  if (!tokenizer_) return;
  end_tokens_ = with_context([&] { return text::end_tokens(model, *tokenizer_); }, [&] { return file; });
}

std::vector<int64_t> TextCodec::encode(const std::string& text) const {
  return tokenizer_ ? tokenizer_->encode(text) : text::encode_bytes(text);
}

std::function<text::TokenText()> TextCodec::token_text() const {
  if (!tokenizer_) return text::byte_text;
  return [tokenizer = *tokenizer_] {
    const auto stream = std::make_shared<text::StreamDecoder>(tokenizer);
    return text::TokenText{[stream](int64_t token) { return stream->add(token); },
                           [stream] { return stream->finish(); }};
  };
}

}  // namespace genesis::tools
