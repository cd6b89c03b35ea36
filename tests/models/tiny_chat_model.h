// A small language model with a tokenizer and a chat template, for tests of the server and of the C interface.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>

#include "models/tokenizer/model_files.h"
#include "models/zoo.h"
#include "tests/schema/file_models.h"

namespace genesis::testing {

inline constexpr const char* kTinyChatConfig =
    R"({"eos_token": "<|endoftext|>", "chat_template": "{% if tools %}{{ tools[0].function.name }}<tool_call>{% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"})";

// Returns a model of two layers with random weights, which differ enough that its choices are no near ties. A text has up to 256 tokens.
inline std::unique_ptr<Model> tiny_chat_model() {
  const TemporaryFolder folder;
  std::filesystem::copy(GENESIS_SOURCE_ROOT "/tests/models/tokenizer/qwen.json", folder / "tokenizer.json");
  std::ofstream(folder / "tokenizer_config.json") << kTinyChatConfig;
  auto model = models::make_model("qwen2", {{"vocab_size", "909"},
                                            {"hidden_size", "16"},
                                            {"intermediate_size", "32"},
                                            {"num_hidden_layers", "2"},
                                            {"num_attention_heads", "2"},
                                            {"num_key_value_heads", "1"},
                                            {"initializer_range", "0.3"},
                                            {"max_position_embeddings", "256"}});
  text::attach_tokenizer_files(*model, folder / "");
  return model;
}

}  // namespace genesis::testing
