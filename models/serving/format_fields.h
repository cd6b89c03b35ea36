// The fields by which a request says what form an answer has: response_format, structured_outputs and tool_choice.
#pragma once

#include "models/serving/chat_messages.h"
#include "models/serving/fields.h"
#include "models/serving/language_model.h"
#include "models/serving/text_job.h"

namespace genesis::serving {

// Reads the fields and restricts the texts of the task. Throws ApiError for a schema or an expression that cannot be used, and
// for two forms at once.
void read_format(Fields& fields, const LanguageModel& model, const ToolChoice& tools, TextTask& task);

}  // namespace genesis::serving
