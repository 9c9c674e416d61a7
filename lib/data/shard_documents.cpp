#include "data/shard_documents.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace gpt {

ShardDocuments::ShardDocuments(const std::string& folder, const ShardInfo& info)
    : file_(H5File::open((std::filesystem::path(folder) / info.file).string())),
      starts_(file_.open_dataset("/documents")),
      tokens_(info.tokens),
      last_open_(file_.integer("last_document_open") != 0) {
  validate(starts_.size() == info.documents && info.documents >= 1, ExitCode::damaged,
           "{} has {} entries, the manifest promises {}", starts_.where(), starts_.size(), info.documents);
}

void ShardDocuments::for_each(const std::function<void(Range)>& visit) const {
  std::vector<uint64_t> piece;
  int64_t open = -1;  // where the document begins whose end is not known yet
  for (int64_t at = 0; at < starts_.size(); at += static_cast<int64_t>(piece.size())) {
    piece.resize(static_cast<size_t>(std::min<int64_t>(starts_.size() - at, 1 << 16)));
    starts_.read({at, at + static_cast<int64_t>(piece.size())}, H5Element::u64, piece.data());
    for (size_t i = 0; i < piece.size(); ++i) {
      const int64_t entry = at + static_cast<int64_t>(i);
      const bool fits = piece[i] < static_cast<uint64_t>(tokens_) &&
                        (entry == 0 ? piece[i] == 0 : static_cast<int64_t>(piece[i]) > open);
      validate(fits, ExitCode::damaged,
               "{}: entry {} is {}: the entries must begin with 0 and increase, below the {} tokens",
               starts_.where(), entry, piece[i], tokens_);
      const auto start = static_cast<int64_t>(piece[i]);
      if (entry > 0) visit({open, start});
      open = start;
    }
  }
  visit({open, tokens_});
}

}  // namespace gpt
