// RoPE in config.json: its theta, and the scaling for longer texts. Older versions of transformers write rope_scaling, version 5
// rope_parameters; the first takes precedence.
#pragma once

#include "models/formats/config_entry.h"

namespace genesis::models {

// Returns the entry of rope_theta, which version 5 keeps with the parameters of the scaling.
ConfigEntry theta_entry(double where_absent);

// Returns the entry of partial_rotary_factor, which version 5 keeps there, too. It precedes the others.
ConfigEntry partial_rotation_entry(double where_absent);

// Returns the entry of a class whose sliding layers rotate with a base of their own and without scaling: the setting
// rope_local_base_freq. Version 5 then has one object for each type of layer. It precedes the others.
ConfigEntry local_theta_entry(double where_absent);

// Returns the entries of the scaling. It follows those of the sizes and of theta.
ConfigEntry rotation_entry();

}  // namespace genesis::models
