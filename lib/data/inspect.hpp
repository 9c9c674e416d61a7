#pragma once

#include <cstdint>
#include <string>

namespace gpt {

/// What a dataset holds, as text for people: counts, windows per epoch for windows of `context` tokens,
/// tokenizer, fingerprint, entropy, and the first `excerpt` training tokens as text, in which what no
/// terminal should get stands as \xNN. @throws Error
std::string describe_dataset(const std::string& folder, int64_t context, int64_t excerpt);

}  // namespace gpt
