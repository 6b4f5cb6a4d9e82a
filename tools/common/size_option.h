// tools/common/size_option.h — sizes on command lines.
//
// What:      AddSizeOption: an option that takes a size, or sizes.
// Units:     bytes; with k, m, g (kb, KiB...) behind the number, of 1,024 each.
// Threads:   one.
// Errors:    what is no size is a CLI::ValidationError.
#ifndef RING_TOOLS_COMMON_SIZE_OPTION_H_
#define RING_TOOLS_COMMON_SIZE_OPTION_H_

#include <string>

#include "CLI/CLI.hpp"

namespace ring::tools {

template <class Size>
CLI::Option* AddSizeOption(CLI::App* command, const std::string& name, Size& size,
                           const std::string& help) {
  return command->add_option(name, size, help)
      ->transform(CLI::AsSizeValue(false))
      ->type_name("BYTES");
}

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_SIZE_OPTION_H_
