// Drafts with a smaller language model that has the same tokens. It reads what the texts have got since its last draft, forgets what
// was refused of that, and chooses tokens with the options and seeds of the texts: drawn by the same random numbers, a token is
// mostly the one that the larger model draws.
#pragma once

#include "executor/generation/drafter.h"
#include "executor/session.h"

namespace genesis::generation {

// `session` is one of text::open_for_generation() whose cache has as many rows as that of the verifying model. It grows with the
// texts up to `longest` positions; longer texts get no drafts. Throws Error if the model's rotary frequencies depend on the length
// of a text, because then nothing that was read stays.
std::shared_ptr<Drafter> make_model_drafter(Session session, int64_t longest);

}  // namespace genesis::generation
