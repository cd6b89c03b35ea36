#include "models/text/text_codec.h"

#include "models/generation/generator.h"
#include "models/generation/vocabulary.h"
#include "models/text/load_tokenizer.h"
#include "models/tokenizer/model_files.h"

namespace genesis::text {

TextCodec::TextCodec(const Model& model, const std::string& file, const std::string& tokenizer) {
  tokenizer_ = load_fitting_tokenizer(tokenizer, model, file, vocabulary_of(model.entry("decode"), 2));
  if (!tokenizer_) return;
  end_tokens_ = with_context([&] { return text::end_tokens(model, *tokenizer_); }, [&] { return file; });
}

std::vector<int64_t> TextCodec::encode(const std::string& text) const {
  return tokenizer_ ? tokenizer_->encode(text) : encode_bytes(text);
}

std::string TextCodec::decode(const std::vector<int64_t>& tokens) const {
  const TokenText stream = token_text()();
  std::string text;
  for (const int64_t token : tokens) text += stream.add(token);
  return stream.finish ? text + stream.finish() : text;
}

std::function<TokenText()> TextCodec::token_text() const {
  if (!tokenizer_) return byte_text;
  return [tokenizer = *tokenizer_] {
    const auto stream = std::make_shared<StreamDecoder>(tokenizer);
    return TokenText{[stream](int64_t token) { return stream->add(token); },
                     [stream] { return stream->finish(); }};
  };
}

}  // namespace genesis::text
