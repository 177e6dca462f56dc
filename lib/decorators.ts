import { isAbsolute, parse, resolve, sep } from 'node:path'
import { create as contentDisposition } from 'content-disposition'
import { refuseArgument } from './cache-options'
import { readSendOptions } from './options'
import { resolveName } from './resolve-path'
import { refuse } from './respond'
import { refuseWith } from './send'
import type { FastifyReply } from 'fastify'
import type { Mount } from './mount'
import type { Root } from './select'
import type { CachedStaticOptions, SendOptions } from '../types/index'

export interface ReplyDecorators {
  sendFile (this: FastifyReply, filename: string, rootPath?: string | URL | SendOptions, options?: SendOptions): FastifyReply
  download (this: FastifyReply, filepath: string, filename?: string | SendOptions, options?: SendOptions): FastifyReply
}

/** `registered`: the options that a call's own go over. */
export function replyDecorators (mount: Mount, registered: CachedStaticOptions): ReplyDecorators {
  // Called from anywhere, a timer too: errors go to the reply, they are not thrown.
  function serve (
    reply: FastifyReply, name: unknown, options: SendOptions | null | undefined, root?: string | URL, disposition?: string
  ): void {
    try {
      if (typeof name !== 'string') refuseArgument(disposition === undefined ? 'filename' : 'filepath', 'a text', name)
      const send = options == null && root === undefined ? mount.settings.send : readSendOptions(options ?? {}, registered, root)
      const { roots, path } = placeOf(name, mount.roots(send), mount)
      const target = roots[0] === undefined ? 'not-found' : resolveName(path, roots[0].path, send.dotfiles)
      if (typeof target === 'string') return refuseWith(reply, refuse(target))
      const search = mount.search(target, roots, reply.request, send, false)
      const exchange = { request: reply.request, reply, search, send, disposition, isOwnRoute: false, isRelative: !name.startsWith('/') }
      const selection = mount.select(search)
      if (!(selection instanceof Promise)) return mount.answer(exchange, selection)
      selection.then((selection) => mount.answer(exchange, selection)).catch((error) => reply.send(error))
    } catch (error) {
      reply.send(error)
    }
  }

  return {
    sendFile (filename, rootPath, options) {
      if (typeof rootPath === 'string' || rootPath instanceof URL) serve(this, filename, options, rootPath)
      else serve(this, filename, rootPath ?? options)
      return this
    },
    download (filepath, filename, options) {
      const isNamed = typeof filename === 'string'
      const name = isNamed ? filename : filepath
      serve(this, filepath, isNamed ? options : filename ?? options, undefined, contentDisposition(baseName(name)))
      return this
    }
  }
}

/** Without any root an absolute path is one of the file system. */
function placeOf (name: string, roots: readonly Root[], mount: Mount): { roots: readonly Root[], path: string } {
  if (roots.length > 0 || !isAbsolute(name)) return { roots, path: name }
  const { root } = parse(name)
  return { roots: [mount.root(resolve(root), undefined)], path: `/${name.slice(root.length).replaceAll(sep, '/')}` }
}

/** RFC 6266 4.3: only the last segment. Lone surrogates have no UTF-8 form. */
function baseName (name: unknown): string {
  // The caller's mistake, which `serve` reports.
  if (typeof name !== 'string') return ''
  const segments = name.split(/[/\\]/).filter((segment) => segment !== '')
  return Buffer.from(segments.at(-1) ?? '').toString()
}
