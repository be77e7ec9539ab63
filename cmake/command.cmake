# What the command is linked with.
#
# A shared library counts in a process with all that it has: libc, libm and four more take 5 MiB of
# every budget. Linked statically, what isn't used isn't there: the program and its libraries take
# 4.2 MiB in all, instead of 6.6. Where the system has no static libraries, and under sanitizers
# (which want shared ones), the command is linked like any other.
option(MNEM_STATIC "Link the command statically where the system can" ON)

include(CheckCSourceCompiles)

# Sets MNEM_STATIC_LIBRARIES, and MNEM_STATIC_WORKS if a program links with them.
function(mnem_static_check)
  foreach(name pcre2-8 jansson edit tinfo bsd md m http_parser)
    find_library(MNEM_STATIC_${name} lib${name}.a)
    mark_as_advanced(MNEM_STATIC_${name})
    if(NOT MNEM_STATIC_${name})
      return()
    endif()
    list(APPEND libraries ${MNEM_STATIC_${name}})
  endforeach()
  set(CMAKE_REQUIRED_LIBRARIES ${libraries})
  set(CMAKE_REQUIRED_LINK_OPTIONS -static-pie)
  set(CMAKE_REQUIRED_FLAGS -fPIE)
  check_c_source_compiles("
    char *readline(const char *);
    int json_object_size(const void *);
    int main(void) { return json_object_size(readline(0)); }" MNEM_STATIC_WORKS)
  set(MNEM_STATIC_LIBRARIES ${libraries} PARENT_SCOPE)
endfunction()

function(mnem_command_link target)
  if(MNEM_STATIC AND NOT MNEM_SANITIZE AND NOT MNEM_FUZZ)
    mnem_static_check()
  endif()
  if(NOT MNEM_STATIC_WORKS OR NOT MNEM_STATIC_LIBRARIES)
    target_link_libraries(${target} PRIVATE mnem_http mnem_static PkgConfig::JANSSON PkgConfig::EDIT)
    return()
  endif()
  foreach(library mnem_static PkgConfig::JANSSON PkgConfig::EDIT)
    target_include_directories(
      ${target} PRIVATE $<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>)
  endforeach()
  add_dependencies(${target} mnem_http mnem_static)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  # --no-warnings: libedit can look up users' names, which the command never has it do.
  target_link_options(${target} PRIVATE -static-pie -Wl,--gc-sections -Wl,--no-warnings)
  target_link_libraries(${target} PRIVATE $<TARGET_FILE:mnem_http> $<TARGET_FILE:mnem_static>
                                          ${MNEM_STATIC_LIBRARIES})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS $<TARGET_FILE:mnem_http>
                                                $<TARGET_FILE:mnem_static>)
endfunction()
