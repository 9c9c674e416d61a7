#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace gpt {

/// What nanoGPT's meta.pkl says.
struct PickledMeta {
  int64_t vocabulary = 0;
  std::map<int64_t, std::string> texts;  ///< "itos": id to text; empty if the file has none
};

/// Reads a pickled dictionary of numbers, strings and dictionaries of those (protocols 2 to 5), and nothing
/// else: no instruction that names, makes or calls an object is carried out, so a hostile file can do no more
/// than be refused. @param name  for messages  @throws Error(usage) naming the instruction that is not
/// carried out
PickledMeta read_pickled_meta(std::string_view bytes, const std::string& name);

}  // namespace gpt
