#pragma once

#include "train/checkpoint.hpp"

#include <string>

namespace gpt {

/// A header as bytes that World::gather carries, for ranks that do not see the file.
std::string to_text(const CheckpointHeader& header);
/// Of what to_text gave.
CheckpointHeader header_from_text(const std::string& text);

}  // namespace gpt
