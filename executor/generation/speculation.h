// Speculative decoding (Leviathan and others, "Fast Inference from Transformers via Speculative Decoding", 2023): a drafter proposes
// the next tokens of the texts, one run of the model reads all of them (verify_N of entry_points.h) and returns its own choice behind
// each, and a text takes these choices up to the first that is another than was drafted.
//
// The model's choice depends only on seed, position and logits, so that a text has the tokens that it has without drafts, at
// every temperature: on the CPU bit for bit, on a GPU up to the rounding of larger products. Nothing is left to be corrected by
// drawing again: a drafted token is accepted with the probability that the model gives it, or more if the drafter draws by the
// same random numbers.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "executor/generation/cache_rows.h"
#include "executor/generation/drafter.h"
#include "executor/session.h"

namespace genesis::generation {

class Speculation {
 public:
  // Throws Error if the session's model does not verify drafts, or `most` is out of range.
  Speculation(Session& session, std::vector<Row>& rows, DraftOptions options);

  // Chooses one token or more for each row that goes on, if anything is drafted for any of them. Returns false, and has run
  // nothing of the model, if there is no draft. Throws Error if the run fails. A drafter that fails is given up with a warning.
  bool step();
  int64_t most() const { return options_.most; }
  // Returns the entry points that step() runs.
  static std::vector<std::string> entries(int64_t most);

 private:
  std::vector<DraftRow> wanted();
  Drafts draft();
  NamedTensors verify(const Drafts& drafts, int64_t size);
  void take(size_t row, const std::vector<int64_t>& draft, std::span<const int64_t> chosen);
  int64_t room_of(const Row& row) const;

  Session& session_;
  std::vector<Row>& rows_;
  const DraftOptions options_;
  bool has_given_up_ = false;  // the drafter has failed
};

}  // namespace genesis::generation
