#define _GNU_SOURCE
#include "run/limits.h"
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first line of dir/name without its end; false if it cannot be read. */
static bool read_line(const char *dir, const char *name, char *line, int size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) return false;
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fgets(line, size, f) != NULL;
    fclose(f);
    return ok;
}

/* The value of a file with one number; +infinity for none, a negative one or "max". */
static double read_limit(const char *dir, const char *name)
{
    char line[64], *end;
    if (!read_line(dir, name, line, sizeof line)) return INFINITY;
    double v = strtod(line, &end);
    return end == line || v < 0 ? INFINITY : v;
}

static double cores_v1(const char *dir)
{
    double period = read_limit(dir, "cpu.cfs_period_us");
    return period > 0 && period < INFINITY ? read_limit(dir, "cpu.cfs_quota_us") / period : INFINITY;
}

static double cores_v2(const char *dir)
{
    char line[64];
    double quota, period;
    if (!read_line(dir, "cpu.max", line, sizeof line)) return INFINITY;
    return sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 ? quota / period : INFINITY;
}

static double memory_v1(const char *dir) { return read_limit(dir, "memory.limit_in_bytes"); }
static double memory_v2(const char *dir) { return read_limit(dir, "memory.max"); }

/* Whether `name` is one of the comma-separated `list`; version 2 has the empty list. */
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    if (!*list) return n == 0;
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == 0)) return n > 0;
    }
    return false;
}

/* This process's group under a controller ("" for version 2), "/" if there is none. */
static void group_path(const char *controller, char *path, size_t size)
{
    char line[PATH_MAX];
    snprintf(path, size, "/");
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f) return;
    while (fgets(line, sizeof line, f)) {                      /* id:controllers:path */
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        if (listed(list + 1, controller)) snprintf(path, size, "%s", group);
    }
    fclose(f);
}

/* The least limit of the process's group and all groups around it. A container may see its own group as the root: then
 * the path that /proc names does not exist, and the root is where the walk ends. */
static double group_least(const char *controller, double (*limit)(const char *dir))
{
    char group[PATH_MAX / 2], dir[PATH_MAX];
    double least = INFINITY;
    group_path(controller, group, sizeof group);
    for (;;) {
        snprintf(dir, sizeof dir, "/sys/fs/cgroup%s%s%s", *controller ? "/" : "", controller, group);
        double v = limit(dir);
        if (v < least) least = v;
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

int limits_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    double quota = ceil(fmin(group_least("cpu", cores_v1), group_least("", cores_v2)));
    if (quota < n) n = (int)quota;
    return n < 1 ? 1 : n;
}

size_t limits_memory(void)
{
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return (size_t)fmin(bytes, fmin(group_least("memory", memory_v1), group_least("", memory_v2)));
}
