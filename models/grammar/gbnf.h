// GBNF, llama.cpp's language of grammars.
//
//   root ::= "yes" | "no" reason?
//   reason ::= ", because " [a-z ]{1,40} "."
#pragma once

#include <string_view>

#include "models/grammar/grammar.h"

namespace genesis::grammar {

// Adds the rules of the text and returns `root`. Supported: literals "..." and classes [a-z] [^"] with the escapes \n \r \t \\ \" \[
// \] \xHH \uHHHH \UHHHHHHHH, `.` (any character), rules by name, ( ), |, * + ? {m} {m,} {m,n}, and comments from # on. Throws Error
// with the line for anything else, for a name without a rule, and for a text without `root`. A rule that begins with itself has no
// limit, and is an Error of the Recognizer.
Grammar::Rule add_gbnf(Grammar& grammar, std::string_view text);

}  // namespace genesis::grammar
