#pragma once

#include <string>
#include <vector>

namespace gpt::test {

/// Node layouts worth trying on `ranks` ranks; all of them only split one real node.
inline std::vector<std::string> layouts_for(int ranks) {
  switch (ranks) {
    case 2:
      return {"2", "1,1"};
    case 3:
      return {"3", "2,1", "1,2", "1,1,1", "@0,1,0"};
    case 4:
      return {"4", "2,2", "3,1", "1,1,1,1", "2,1,1", "@0,1,0,1"};
    case 5:
      return {"5", "3,2", "2,2,1", "@0,1,0,1,0", "@2,2,7,0,7"};
    case 8:
      return {"8", "4,4", "2,2,2,2", "3,3,2", "1,7", "@0,1,0,1,0,1,0,1", "@0,1,2,3,3,2,1,0"};
    default:
      return {std::to_string(ranks)};
  }
}

}  // namespace gpt::test
