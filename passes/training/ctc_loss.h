// Connectionist temporal classification (Graves et al., 2006), composed of other ops: the loss of texts whose characters have no
// known places in time, as readers of text in pictures are trained.
#pragma once

#include "schema/graph/graph.h"

namespace genesis::passes {

// torch.nn.CTCLoss(blank=0) of log_softmax(logits): logits [batch, time, classes] with a known time, target i64 [batch, length] with
// classes of 1 or more, and -100 behind the end of shorter texts. All of the time is used. Returns the mean over the batch of each
// text's loss divided by its length (1 for an empty one); a text that does not fit the time has a loss near 1e30. Throws Error if
// the time is not known.
Value ctc_loss(Value logits, Value target);

}  // namespace genesis::passes
