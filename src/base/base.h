/* base: errors, buffers, strings, clock, descriptors, logging. Knows nothing of the rest. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "base/clock.h"
#include "base/data/base64.h"
#include "base/data/buf.h"
#include "base/data/map.h"
#include "base/data/mount_text.h"
#include "base/data/utf8.h"
#include "base/error.h"
#include "base/io/fd_pass.h"
#include "base/io/file.h"
#include "base/io/stranger.h"
#include "base/log.h"
#include "base/role.h"
#include "base/schedule/back_to_back.h"
#include "base/schedule/breaker.h"
#include "base/schedule/parallel.h"
#include "base/schedule/principals.h"
#include "base/schedule/share.h"
#include "base/schedule/slice.h"
#include "base/schedule/turns.h"
#include "base/util.h"

#endif
