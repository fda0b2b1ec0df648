#!/usr/bin/env bash
# Prints the home of a Java that Spark runs on (17 or 21) to stdout; everything else goes to stderr.
# Order: JAVA_HOME, java on the PATH, the usual folders, and as root on Debian or Ubuntu: install one.
# ENSURE_JAVA_ROOTS (folders to search, for tests) and ENSURE_JAVA_INSTALL=no change that.
set -euo pipefail

roots=${ENSURE_JAVA_ROOTS-"/usr/lib/jvm /usr/java /opt/java /opt/homebrew/opt /usr/local/opt /Library/Java/JavaVirtualMachines ${HOME:-}/.sdkman/candidates/java"}
rejected=""

# The feature version of the java program $1: 8 for "1.8.0_392", 17 for "17.0.9"; nothing if it does not run.
feature_version() {
    "$1" -version 2>&1 | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -n 1
}

# Says yes and prints the home, if $1 is the home of a Java 17 or 21.
accept() {
    local version
    [ -x "$1/bin/java" ] || return 1
    version=$(feature_version "$1/bin/java") || return 1
    case "$version" in
        17 | 21) echo "$1" ;;
        *) rejected="$rejected $1 (Java ${version:-unknown})"; return 1 ;;
    esac
}

# The home of the program that `java` on the PATH really is; on macOS /usr/bin/java is a stub that may stand for none.
home_on_path() {
    command -v java >/dev/null || return 1
    java -XshowSettings:properties -version 2>&1 | sed -nE 's/^ *java\.home = (.*)$/\1/p' | head -n 1
}

search() {
    local root home
    if [ -n "${JAVA_HOME:-}" ]; then
        accept "$JAVA_HOME" && return
    fi
    home=$(home_on_path) && [ -n "$home" ] && accept "$home" && return
    if [ -x /usr/libexec/java_home ]; then  # macOS
        for version in 17 21; do
            home=$(/usr/libexec/java_home -v "$version" -F 2>/dev/null) && accept "$home" && return
        done
    fi
    for root in $roots; do
        for home in "$root"/*17* "$root"/*21* "$root"/*17*/Contents/Home "$root"/*21*/Contents/Home \
            "$root"/*17*/libexec/openjdk.jdk/Contents/Home "$root"/*21*/libexec/openjdk.jdk/Contents/Home; do
            accept "$home" && return
        done
    done
    return 1
}

install() {
    [ "${ENSURE_JAVA_INSTALL:-yes}" = yes ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    apt-get update -qq >&2 || true
    local version
    for version in 17 21; do  # Debian 12 has only 17, Debian 13 only 21
        echo "Installing a headless Java $version with apt-get ..." >&2
        if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "openjdk-$version-jre-headless" >&2; then
            return
        fi
    done
    return 1
}

advice() {
    case "$(uname -s)" in
        Darwin) echo "brew install openjdk@17" ;;
        *)
            if command -v apt-get >/dev/null; then echo "sudo apt-get install openjdk-17-jre-headless (or openjdk-21-jre-headless)"
            elif command -v dnf >/dev/null; then echo "sudo dnf install java-17-openjdk-headless (or java-21-openjdk-headless)"
            else echo "a JRE or JDK 17 or 21, e.g. from https://adoptium.net"; fi ;;
    esac
}

# Not in a subshell: search remembers what it rejected.
found=$(mktemp)
trap 'rm -f "$found"' EXIT
if search >"$found"; then
    cat "$found"
    exit
fi
[ -z "$rejected" ] || echo "Spark needs Java 17 or 21; passed over:$rejected" >&2
if install && search >"$found"; then
    cat "$found"
    exit
fi
echo "Spark needs Java 17 or 21, and none was found. Install: $(advice); or set JAVA_HOME to one." >&2
exit 1
