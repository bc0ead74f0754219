/* A driver's library whose devices stand in a text file ($FAKE_NVML_STATE, "key value" a line; replaced atomically).

   A value may change by itself:  gpu0.util 10;@1763470000.5=80;@1763470002=20   (seconds since 1970)
   gpu0.err.<function> 4       this answer of that function for that device; gpu0.err for all of them
   err.<function> 999          the same for functions without a device
   gpu0.hang.<function> 3600   the call takes so many seconds
   clock_offset 0;@1763470000=-3600            the clock of the driver's samples, against the machine's
   gpu0.procs 4242:9000000000:80,4343:-:0     pid:bytes:percent; "-" for memory that is not told
   gpu0.while_alive 4242       util, used and procs are nothing any more once this process has gone
   gpu0.slices 2, gpu0.slice0.uuid …          a divided device; handles of slices know memory and processes only

   -DOLD_DRIVER leaves out what drivers before 510 or so do not have. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <pthread.h>

typedef unsigned long long u64;
typedef unsigned int u32;
enum { OK = 0, UNINITIALIZED = 1, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, WRONG_VERSION = 25 };
enum { SLICE = 1000, PERIOD_US = 20000, BUFFER = 120 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *text;
static struct stat read_as;
static int inited;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static void reread(void) {
  const char *path = getenv("FAKE_NVML_STATE");
  struct stat is;
  if (!path || stat(path, &is)) return;
  if (text && is.st_ino == read_as.st_ino && is.st_size == read_as.st_size &&
      is.st_mtim.tv_sec == read_as.st_mtim.tv_sec && is.st_mtim.tv_nsec == read_as.st_mtim.tv_nsec) return;
  FILE *file = fopen(path, "r");
  if (!file) return;
  free(text);
  text = calloc(1, is.st_size + 2);
  text[0] = '\n';
  if (fread(text + 1, 1, is.st_size, file) < (size_t)is.st_size) text[1] = 0;
  fclose(file);
  read_as = is;
}

static int look(const char *key, char *out, size_t size) {
  char wanted[128];
  snprintf(wanted, sizeof wanted, "\n%s ", key);
  pthread_mutex_lock(&lock);
  reread();
  char *found = text ? strstr(text, wanted) : 0;
  if (found) {
    found += strlen(wanted);
    size_t length = strcspn(found, "\n");
    if (length >= size) length = size - 1;
    memcpy(out, found, length);
    out[length] = 0;
  }
  pthread_mutex_unlock(&lock);
  return found != 0;
}

/* "a;@t1=b;@t2=c": a until t1, b until t2, then c. */
static double at(const char *value, double when) {
  double is = strtod(value, 0);
  for (const char *p = strchr(value, '@'); p; p = strchr(p + 1, '@')) {
    char *rest;
    double from = strtod(p + 1, &rest);
    if (*rest == '=' && when >= from) is = strtod(rest + 1, 0);
  }
  return is;
}

static void prefix(u64 d, char *out, size_t size) {
  u64 n = d - 1;
  if (n >= SLICE) snprintf(out, size, "gpu%llu.slice%llu", n / SLICE - 1, n % SLICE);
  else snprintf(out, size, "gpu%llu", n);
}

static int has(u64 d, const char *name, char *out, size_t size) {
  char of[48], key[128];
  prefix(d, of, sizeof of);
  snprintf(key, sizeof key, "%s.%s", of, name);
  return look(key, out, size);
}

/* A real driver frees what a dead process held. */
static int of_the_dead(u64 d, const char *name) {
  char value[32];
  if (strcmp(name, "util") && strcmp(name, "used") && strcmp(name, "procs")) return 0;
  return has(d, "while_alive", value, sizeof value) && kill((pid_t)atol(value), 0) && errno == ESRCH;
}

static double number(u64 d, const char *name, double otherwise, double when) {
  char value[512];
  if (of_the_dead(d, name)) return 0;
  return has(d, name, value, sizeof value) ? at(value, when) : otherwise;
}

/* The time that the driver's samples are marked with. */
static u64 stamp_us(void) {
  char value[128];
  double now = now_s();
  return (u64)((now + (look("clock_offset", value, sizeof value) ? at(value, now) : 0)) * 1e6);
}

static int refused(const char *function) {
  char key[96], value[256];
  snprintf(key, sizeof key, "hang.%s", function);
  if (look(key, value, sizeof value)) usleep((useconds_t)(at(value, now_s()) * 1e6));
  snprintf(key, sizeof key, "err.%s", function);
  if (look(key, value, sizeof value)) return (int)at(value, now_s());
  return inited ? OK : UNINITIALIZED;
}

static int refused_by(u64 d, const char *function) {
  char key[96];
  int code = refused(function);
  if (code) return code;
  snprintf(key, sizeof key, "hang.%s", function);
  double hang = number(d, key, 0, now_s());
  if (hang > 0) usleep((useconds_t)(hang * 1e6));
  code = (int)number(d, "err", 0, now_s());
  if (code) return code;
  snprintf(key, sizeof key, "err.%s", function);
  return (int)number(d, key, 0, now_s());
}

#define D ((u64)(size_t)d)
#define GUARD do { int code_ = refused_by(D, __func__); if (code_) return code_; } while (0)
#define WHOLE do { GUARD; if (D - 1 >= SLICE) return NOT_SUPPORTED; } while (0)
#define NUMBER(name, otherwise) number(D, name, otherwise, now_s())

static int put(char *out, u32 size, const char *value) {
  if (strlen(value) + 1 > size) return TOO_SMALL;
  strcpy(out, value);
  return OK;
}

int nvmlInitWithFlags(u32 flags) {
  (void)flags;
  inited++;
  int code = refused(__func__);
  if (code) inited--;
  return code;
}
/* By which programs know this library from NVIDIA's. */
int emulatedNvml(void) { return 1; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == 999 ? "Unknown Error" : "An Error"; }

int nvmlSystemGetDriverVersion(char *out, u32 size) {
  char value[64];
  int code = refused(__func__);
  return code ? code : put(out, size, look("driver", value, sizeof value) ? value : "580.65.06");
}
int nvmlSystemGetCudaDriverVersion(int *out) {
  int code = refused(__func__);
  *out = 13000;
  return code;
}
int nvmlDeviceGetCount_v2(u32 *out) {
  char value[64];
  int code = refused(__func__);
  *out = look("count", value, sizeof value) ? (u32)at(value, now_s()) : 1;
  return code;
}
int nvmlDeviceGetHandleByIndex_v2(u32 index, void **out) {
  u32 count;
  int code = nvmlDeviceGetCount_v2(&count);
  if (code) return code;
  if (index >= count) return BAD_ARGUMENT;
  *out = (void *)(size_t)(index + 1);
  return refused_by(index + 1, __func__);
}

static void uuid_of(u64 d, char *out, size_t size) {
  if (!has(d, "uuid", out, size)) snprintf(out, size, "%s-00000000-0000-0000-0000-%012llu", d - 1 >= SLICE ? "MIG" : "GPU", d - 1);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
  u32 count;
  char is[96];
  int code = nvmlDeviceGetCount_v2(&count);
  if (code) return code;
  for (u64 g = 1; g <= count; g++) {
    uuid_of(g, is, sizeof is);
    if (!strcmp(is, uuid)) { *out = (void *)(size_t)g; return OK; }
    for (u64 s = 0; s < number(g, "slices", 0, now_s()); s++) {
      u64 d = g * SLICE + s + 1;
      uuid_of(d, is, sizeof is);
      if (!strcmp(is, uuid)) { *out = (void *)(size_t)d; return OK; }
    }
  }
  return NOT_FOUND;
}
int nvmlDeviceGetIndex(void *d, u32 *out) { GUARD; *out = D - 1 >= SLICE ? (D - 1) / SLICE - 1 : D - 1; return OK; }
int nvmlDeviceGetName(void *d, char *out, u32 size) {
  char value[96];
  GUARD;
  return put(out, size, has(D, "name", value, sizeof value) ? value : "Fake GPU");
}
int nvmlDeviceGetUUID(void *d, char *out, u32 size) {
  char value[96];
  GUARD;
  uuid_of(D, value, sizeof value);
  return put(out, size, value);
}

typedef struct { u64 total, free, used; } memory1;
typedef struct { u32 version; u64 total, reserved, free, used; } memory2;

int nvmlDeviceGetMemoryInfo(void *d, memory1 *out) {
  GUARD;
  out->total = NUMBER("total", 8ull << 30);
  out->used = NUMBER("used", 0) + NUMBER("reserved", 0); /* the first version counts both as used */
  out->free = out->total - out->used;
  return OK;
}
int nvmlDeviceGetUtilizationRates(void *d, u32 *out) {
  WHOLE;
  double sum = 0, when = now_s();
  for (int i = 0; i < 8; i++) sum += number(D, "util", 0, when - i / 48.0); /* over a sixth of a second */
  out[0] = (u32)(sum / 8 + 0.5);
  out[1] = 0;
  return OK;
}
int nvmlDeviceGetPowerUsage(void *d, u32 *out) { WHOLE; *out = NUMBER("power_mw", 0); return OK; }
int nvmlDeviceGetClockInfo(void *d, int kind, u32 *out) { WHOLE; *out = kind == 1 ? NUMBER("sm_clock", 1000) : 7; return OK; }
int nvmlDeviceGetTemperature(void *d, int sensor, u32 *out) { WHOLE; (void)sensor; *out = NUMBER("temperature", 40); return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, u64 *out) { WHOLE; *out = NUMBER("throttle", 0); return OK; }
int nvmlDeviceGetPcieThroughput(void *d, int counter, u32 *out) {
  WHOLE;
  usleep(20000);
  *out = counter == 1 ? NUMBER("pcie_rx_kb", 0) : NUMBER("pcie_tx_kb", 0);
  return OK;
}

typedef struct { u32 pid; u64 used; u32 gpu_instance, compute_instance; } process;
typedef struct { u32 pid; u64 when; u32 sm, memory, encoder, decoder; } process_use;

static u32 processes(u64 d, const char *which, process *out, process_use *uses, u32 size) {
  char value[512], *rest = value, *one;
  u32 n = 0;
  if (of_the_dead(d, which) || !has(d, which, value, sizeof value)) return 0;
  while ((one = strsep(&rest, ","))) {
    u32 pid, sm = 0;
    char bytes[32] = "-";
    if (sscanf(one, "%u:%31[^:]:%u", &pid, bytes, &sm) < 1) continue;
    if (out && n < size) out[n] = (process){pid, bytes[0] == '-' ? ~0ull : strtoull(bytes, 0, 10), ~0u, ~0u};
    if (uses && n < size) uses[n] = (process_use){pid, stamp_us(), sm, 0, 0, 0};
    n++;
  }
  return n;
}
static int listed(u64 d, const char *which, u32 *count, process *out) {
  u32 size = *count;
  *count = processes(d, which, out, 0, size);
  return *count > size ? TOO_SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *d, u32 *count, process *out) { GUARD; return listed(D, "procs", count, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(void *d, u32 *count, process *out) { GUARD; return listed(D, "graphics", count, out); }

#ifndef OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, u32 *count, process *out) { GUARD; return listed(D, "procs", count, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, u32 *count, process *out) { GUARD; return listed(D, "graphics", count, out); }
int nvmlDeviceGetMemoryInfo_v2(void *d, memory2 *out) {
  GUARD;
  if (out->version != 0x2000028) return WRONG_VERSION;
  out->total = NUMBER("total", 8ull << 30);
  out->reserved = NUMBER("reserved", 0);
  out->used = NUMBER("used", 0);
  out->free = out->total - out->used - out->reserved;
  return OK;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *d, u64 *out) { WHOLE; *out = NUMBER("throttle", 0); return OK; }
/* Grows with "power_mw" from "energy_from" on, or is "energy_mj" as it stands. */
int nvmlDeviceGetTotalEnergyConsumption(void *d, u64 *out) {
  char value[64];
  WHOLE;
  if (!has(D, "energy_from", value, sizeof value)) { *out = NUMBER("energy_mj", 0); return OK; }
  double sum = 0, when = now_s();
  for (double t = strtod(value, 0); t < when; t += 0.01) sum += number(D, "power_mw", 0, t) * (when - t < 0.01 ? when - t : 0.01);
  *out = 5000000 + (u64)sum;
  return OK;
}
int nvmlDeviceGetProcessUtilization(void *d, process_use *out, u32 *count, u64 since) {
  WHOLE;
  (void)since;
  u32 n = processes(D, "procs", 0, 0, 0);
  if (!n) return NOT_FOUND;
  if (!out || *count < n) { *count = n; return TOO_SMALL; }
  *count = processes(D, "procs", 0, out, *count);
  return OK;
}
typedef struct { u64 when; union { double d; u64 u; u32 i; } value; } sample;
int nvmlDeviceGetSamples(void *d, int kind, u64 since, u32 *type, u32 *count, sample *out) {
  WHOLE;
  (void)kind;
  *type = 1;
  if (!out) { *count = BUFFER; return OK; }
  u64 newest = stamp_us() / PERIOD_US * PERIOD_US, n = 0;
  double ahead = stamp_us() / 1e6 - now_s();
  for (u64 i = BUFFER; i-- > 0;) {
    u64 when = newest - i * PERIOD_US;
    if (when <= since || n >= *count) continue;
    out[n].when = when;
    out[n++].value.i = (u32)number(D, "util", 0, when / 1e6 - ahead - PERIOD_US / 2e6);
  }
  *count = n;
  return n ? OK : NOT_FOUND;
}
int nvmlDeviceGetMigMode(void *d, u32 *now, u32 *pending) {
  WHOLE;
  *now = *pending = NUMBER("slices", 0) > 0;
  return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *d, u32 *out) { WHOLE; *out = NUMBER("slices", 0) > 0 ? 7 : 0; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, u32 index, void **out) {
  WHOLE;
  if (index >= NUMBER("slices", 0)) return NOT_FOUND;
  *out = (void *)(size_t)(D * SLICE + index + 1);
  return OK;
}
#endif
