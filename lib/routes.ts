import { glob } from 'tinyglobby'
import { resolveName, resolvePath, withSlash } from './resolve-path'
import { refuse } from './respond'
import { onClose, refuseWith } from './send'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Mount } from './mount'
import type { Rejection, Target } from './resolve-path'
import type { Root, Search, Selection } from './select'

/** What the `onRequest` hook leaves for the handler. */
type Consultation =
  | { readonly rejection: Rejection }
  | { readonly search: Search, readonly selection: Selection }

const kConsultation = Symbol('fastify-cached-static.consultation')

type ConsultedRequest = FastifyRequest & { [kConsultation]: Consultation | null }

/** Options of the application's router that change what its routes mean. */
export interface RouterOptions {
  readonly useSemicolonDelimiter?: boolean | undefined
  readonly ignoreTrailingSlash?: boolean | undefined
}

interface StaticRoute {
  readonly url: string
  readonly roots: readonly Root[]
  readonly config?: object
  targetOf (request: FastifyRequest): Target | Rejection
}

export async function addRoutes (fastify: FastifyInstance, mount: Mount, router: RouterOptions): Promise<void> {
  if (!fastify.hasRequestDecorator(kConsultation)) fastify.decorateRequest(kConsultation, null)
  if (mount.settings.wildcard) addWildcardRoute(fastify, mount, router)
  else await addFileRoutes(fastify, mount, router)
}

function addWildcardRoute (fastify: FastifyInstance, mount: Mount, router: RouterOptions): void {
  const { prefix, prefixAvoidTrailingSlash, redirect, send } = mount.settings
  const roots = mount.roots(send)
  const [{ path: root }] = roots as [Root]
  const add = (url: string, remainder: (params: Record<string, string>, rawUrl: string) => string): void => {
    addRoute(fastify, mount, {
      url,
      roots,
      targetOf ({ params, raw }) {
        const rawUrl = raw.url as string
        return rejectionOf(params as Record<string, string>) ??
          resolvePath(remainder(params as Record<string, string>, rawUrl), rawUrl, root, send.dotfiles, router.useSemicolonDelimiter)
      }
    })
  }
  add(`${withSlash(prefix)}*`, (params, rawUrl) => {
    const name = params['*'] as string
    // `/d` and `/d/` are not the same to us, though they are to the router, which has taken the slash away.
    return router.ignoreTrailingSlash === true && name !== '' && endsInSlash(rawUrl, router) ? `${name}/` : name
  })
  if (!hasBareRoute(fastify, prefix)) return
  // Not `prefix*`: that has `/static-secret` for `/static`, too.
  if (prefixAvoidTrailingSlash) add(prefix, () => '')
  else if (redirect) addPrefixRedirect(fastify, mount, router)
}

function endsInSlash (rawUrl: string, { useSemicolonDelimiter }: RouterOptions): boolean {
  return (useSemicolonDelimiter === true ? /^[^?#;]*\/(?:[?#;]|$)/ : /^[^?#]*\/(?:[?#]|$)/).test(rawUrl)
}

/** Whether the prefix without a slash behind it is a route apart. */
function hasBareRoute (fastify: FastifyInstance, prefix: string): boolean {
  return !prefix.endsWith('/') && fastify.prefix + prefix !== ''
}

/** `wildcard: false`: one route for each file that is there now, and for each directory that has an index. */
async function addFileRoutes (fastify: FastifyInstance, mount: Mount, router: RouterOptions): Promise<void> {
  const { prefix, prefixAvoidTrailingSlash, redirect, send, serveDotFiles, globIgnore, symlinks } = mount.settings
  const base = withSlash(prefix)
  const hasBare = hasBareRoute(fastify, prefix)
  const added = new Set<string>()
  const unroutable: string[] = []
  // `:` begins a parameter, `::` is one colon.
  const add = (pathname: string, root: Root, url = base + pathname.replaceAll(':', '::')): void => {
    const key = router.ignoreTrailingSlash === true ? withSlash(url) : url
    // The first root that has a name has it.
    if (added.has(key)) return
    added.add(key)
    const target = resolveName(pathname, root.path, send.dotfiles)
    const rootPath = withSlash(root.path)
    addRoute(fastify, mount, {
      url,
      roots: [{ ...root, name: rootPath }],
      config: { file: `/${pathname}`, rootPath },
      targetOf: ({ params }) => rejectionOf(params as Record<string, string>) ?? target
    })
  }
  for (const root of mount.roots(send)) {
    const files = await glob(['**', '.well-known/**'], {
      cwd: root.path,
      dot: serveDotFiles,
      ignore: globIgnore,
      expandDirectories: false,
      followSymbolicLinks: symlinks !== 'deny'
    })
    for (const file of files.sort()) {
      // The router takes `*` for a wildcard, and knows `#` and `?` only as the ends of paths.
      if (/[#?*]/.test(file)) {
        unroutable.push(file)
        continue
      }
      add(file, root)
      const slash = file.lastIndexOf('/') + 1
      if (!send.index.includes(file.slice(slash))) continue
      const directory = file.slice(0, slash)
      add(directory, root)
      if (directory !== '') {
        if (redirect) add(directory.slice(0, -1), root)
      } else if (prefixAvoidTrailingSlash && hasBare) add('', root, prefix)
    }
  }
  if (unroutable.length > 0) {
    fastify.log.warn(`"wildcard: false" has no route for names with "#", "?" or "*": ${unroutable.slice(0, 10).join(', ')}`)
  }
  if (redirect && hasBare && !prefixAvoidTrailingSlash) addPrefixRedirect(fastify, mount, router)
}

/** From the prefix without its trailing slash. */
function addPrefixRedirect (fastify: FastifyInstance, mount: Mount, router: RouterOptions): void {
  // Such a route would have the path with the slash, too, and go round in circles.
  if (router.ignoreTrailingSlash === true) return
  fastify.route({
    ...routeOptions(mount),
    url: mount.settings.prefix,
    handler: (request, reply) => reply.redirect(mount.directoryLocation(request), 301)
  })
}

function addRoute (fastify: FastifyInstance, mount: Mount, { url, roots, config = {}, targetOf }: StaticRoute): void {
  const { send } = mount.settings
  fastify.route({
    ...routeOptions(mount),
    url,
    config,

    onRequest (request, reply, done) {
      const target = targetOf(request)
      if (typeof target === 'string') {
        consulted(request, { rejection: target })
        return done()
      }
      const search = mount.search(target, roots, request, send, mount.fallback !== undefined && fallsBack(target, request))
      const selection = mount.select(search)
      if (!(selection instanceof Promise)) {
        consulted(request, { search, selection })
        return done()
      }
      // It never rejects: errors are sent by the handler, after the hooks of this route.
      selection.then((selection) => {
        consulted(request, { search, selection })
        if (selection.kind === 'found' && selection.lease !== undefined) {
          const { lease } = selection
          onClose(reply, () => lease.release())
        }
        done()
      })
    },

    handler (request, reply) {
      const consultation = (request as ConsultedRequest)[kConsultation] as Consultation
      if ('rejection' in consultation) return refuseWith(reply, refuse(consultation.rejection))
      const { search, selection } = consultation
      mount.answer({ request, reply, search, send, disposition: undefined, isOwnRoute: true, isRelative: false }, selection)
    }
  })
}

function routeOptions ({ settings: { route: { constraints, logLevel, schemaHide } } }: Mount) {
  return {
    method: ['GET', 'HEAD'],
    exposeHeadRoute: false,
    schema: { hide: schemaHide } as object,
    ...constraints !== undefined && { constraints },
    ...logLevel !== undefined && { logLevel }
  }
}

function consulted (request: FastifyRequest, consultation: Consultation): void {
  (request as ConsultedRequest)[kConsultation] = consultation
}

/** What parameters of the prefix have taken that no segment may be: `/app/:version/` has `/app/../x` and `/app//x`, too. */
function rejectionOf (params: Record<string, string>): Rejection | undefined {
  let rejection: Rejection | undefined
  for (const name in params) {
    if (name === '*') continue
    if (params[name] === '..' || params[name] === '.') return 'forbidden'
    if (params[name] === '') rejection = 'not-found'
  }
  return rejection
}

/** A page of the application, not one of its assets, and asked for by a browser that navigates. */
function fallsBack ({ pathname }: Target, request: FastifyRequest): boolean {
  if (pathname.includes('.', pathname.lastIndexOf('/'))) return false
  return /(?:^|,)[\t ]*text\/html[\t ]*(?:,|$|;(?!(?:[^,]*;)?[\t ]*q=0(?:\.0*)?[\t ]*(?:[,;]|$)))/i.test(request.headers.accept ?? '')
}
