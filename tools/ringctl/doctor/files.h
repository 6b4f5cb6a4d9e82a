// tools/ringctl/doctor/files.h — reading the small files of /proc and /sys.
//
// What:      ReadLine, ReadNumber: a file's first line, a number in it. FileNames: a folder's, in
//            order. ChosenWord: of "a [b] c" the b.
// Threads:   any.
// Errors:    none: what cannot be read is empty, or 0.
#ifndef RING_TOOLS_RINGCTL_DOCTOR_FILES_H_
#define RING_TOOLS_RINGCTL_DOCTOR_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ring::tools {

// Without blanks at its ends.
std::string ReadLine(const std::string& path);
std::uint64_t ReadNumber(const std::string& path);
// All of it, up to 64 KiB.
std::string ReadSmallFile(const std::string& path);
std::vector<std::string> FileNames(const std::string& path);
std::string ChosenWord(absl::string_view line);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_DOCTOR_FILES_H_
