// Text from a language model: prefill the prompt, then decode token by token. Sampling is a graph of its own,
// so it runs where the model runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "executor/session.h"

namespace genesis::text {

struct GenerateOptions {
  int64_t max_tokens = 100;
  double temperature = 1.0;  // 0: always the likeliest token
  int64_t top_k = 0;         // 0: off
  double top_p = 1.0;        // 1: off
  uint64_t seed = 0;
};

struct GenerateResult {
  std::vector<int64_t> tokens;  // new ones
  double compile_seconds = 0;   // of all plans and kernels that this text needed and the session had not yet
  double prefill_seconds = 0, decode_seconds = 0;
  int64_t decoded = 0;      // runs of `decode`; the first token comes from `prefill`
  bool cache_full = false;  // stopped because the KV cache has no more room
};

// Throws Error when generate() would before its first step: no entry points, settings out of range, a prompt
// that is empty or longer than the KV cache.
void check_generate(const Session& session, const std::vector<int64_t>& prompt,
                    const GenerateOptions& options);

// Needs the entry points `prefill` and `decode`. `on_token` may end the text early by returning false.
GenerateResult generate(Session& session, const std::vector<int64_t>& prompt, const GenerateOptions& options,
                        const std::function<bool(int64_t token)>& on_token = {});

// Byte tokens: what models with a vocabulary of 256 read and write.
std::vector<int64_t> encode_bytes(const std::string& text);
std::string decode_bytes(const std::vector<int64_t>& tokens);

}  // namespace genesis::text
